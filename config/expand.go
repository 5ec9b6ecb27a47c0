package config

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	// variable is ${VAR}, ${env:VAR} or ${VAR:-default}.
	variable = regexp.MustCompile(`^\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\}`)
	// foreign is a variable of a client's: ${input:token}, ${file:/a}.
	foreign = regexp.MustCompile(`^\$\{([A-Za-z]+):[^}]*\}`)
	// openCode is a variable as opencode writes it: {env:VAR}, {file:/a}.
	openCode = regexp.MustCompile(`(?:^|[^$])\{(env|file):`)
)

const spellings = "write ${VAR}, ${env:VAR} or ${VAR:-default}"

// Expand puts variables into a text, which env looks up as os.LookupEnv does. Values are
// not looked into again, a $ before anything but { stays, and what looks like a variable
// and is none, or is not set, is an error and never an empty text. Errors hold names
// only.
func Expand(text string, env func(string) (string, bool)) (string, error) {
	var b strings.Builder
	for {
		at := strings.Index(text, "${")
		if at < 0 {
			b.WriteString(text)
			return b.String(), nil
		}
		b.WriteString(text[:at])
		text = text[at:]
		match := variable.FindStringSubmatch(text)
		if match == nil {
			return "", noVariable(text)
		}
		value, err := lookUp(match[1], match[2], env)
		if err != nil {
			return "", err
		}
		b.WriteString(value)
		text = text[len(match[0]):]
	}
}

// lookUp is the value of a variable. The default begins with :- or is none.
func lookUp(name, standard string, env func(string) (string, bool)) (string, error) {
	if strings.Contains(standard, "${") {
		return "", fmt.Errorf("the default of ${%s} has a variable in it; a default is a plain text", name)
	}
	if value, set := env(name); set {
		return value, nil
	}
	if standard == "" {
		return "", fmt.Errorf("the variable %s is not set; set it, or write ${%s:-default}", name, name)
	}
	return strings.TrimPrefix(standard, ":-"), nil
}

func noVariable(text string) error {
	if match := foreign.FindStringSubmatch(text); match != nil && match[1] != "env" {
		return fmt.Errorf("${%s:…} is a variable that only a client knows; %s", match[1], spellings)
	}
	return fmt.Errorf("a ${ begins no variable; %s", spellings)
}
