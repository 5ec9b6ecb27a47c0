package main

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/mcp-idem/mcp-idem/upstream"
)

// An eraMemory remembers in a file how servers speak, so that a start need not find
// out again. It is a hint: what it says wrongly costs a moment, and what cannot be
// written is found out again.
type eraMemory struct {
	file string // empty: nothing is remembered
	log  zerolog.Logger
}

func newEraMemory(log zerolog.Logger) eraMemory {
	folder, err := stateFolder()
	if err != nil {
		return eraMemory{log: log}
	}
	return eraMemory{file: filepath.Join(folder, "eras.json"), log: log}
}

// known is the era of the server of a name, or upstream.EraAuto.
func (m eraMemory) known(name string) upstream.Era {
	if era, err := upstream.ParseEra(m.read()[name]); err == nil {
		return era
	}
	return upstream.EraAuto
}

func (m eraMemory) read() map[string]string {
	eras := map[string]string{}
	if text, err := os.ReadFile(m.file); err == nil {
		_ = json.Unmarshal(text, &eras) // what cannot be read is found out again
	}
	return eras
}

// remember keeps the era of a server. Of two that are written at once one may be
// forgotten.
func (m eraMemory) remember(name string, era upstream.Era) {
	if m.file == "" {
		return
	}
	eras := m.read()
	eras[name] = string(era)
	if err := writeWhole(m.file, eras); err != nil {
		m.log.Debug().Err(err).Msg("how the server speaks could not be remembered")
	}
}

// writeWhole writes a file by way of another, so that it is never there in part.
func writeWhole(file string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	part, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(part.Name()) }() // unless it was renamed
	_, err = part.Write(append(text, '\n'))
	if shut := part.Close(); err == nil {
		err = shut
	}
	if err != nil {
		return err
	}
	return os.Rename(part.Name(), file)
}
