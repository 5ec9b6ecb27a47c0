package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A runner is a program that runs a package which its arguments name. The name
// of an upstream must not change with the package's version, since it is part of
// the scope of keys.
type runner struct {
	words  []string // what must follow the program's name
	values []string // options that take a value
	names  []string // options whose value is the package
}

var runners = map[string][]runner{
	"npx":    {{values: npmValues, names: []string{"-p", "--package"}}},
	"bunx":   {{}},
	"npm":    {{words: []string{"exec"}, values: npmValues, names: []string{"--package"}}, {words: []string{"x"}, values: npmValues, names: []string{"--package"}}},
	"pnpm":   {{words: []string{"dlx"}, names: []string{"--package"}}},
	"pnpx":   {{}},
	"yarn":   {{words: []string{"dlx"}, names: []string{"-p", "--package"}}},
	"bun":    {{words: []string{"x"}}},
	"uvx":    {{values: uvValues, names: []string{"--from"}}},
	"uv":     {{words: []string{"tool", "run"}, values: uvValues, names: []string{"--from"}}},
	"pipx":   {{words: []string{"run"}, names: []string{"--spec"}}},
	"docker": {{words: []string{"run"}, values: dockerValues}, {words: []string{"container", "run"}, values: dockerValues}},
	"podman": {{words: []string{"run"}, values: dockerValues}},
}

var (
	npmValues    = []string{"--registry", "--userconfig", "--cache", "-w", "--workspace", "--prefix"}
	uvValues     = []string{"--python", "-p", "--with", "--with-editable", "--with-requirements", "--index", "--index-url", "-i", "--extra-index-url", "--directory", "--project", "--env-file", "--refresh-package"}
	dockerValues = []string{"-e", "--env", "--env-file", "-v", "--volume", "--mount", "--name", "-p", "--publish", "--network", "--net", "-w", "--workdir", "-u", "--user",
		"-h", "--hostname", "-l", "--label", "--add-host", "--entrypoint", "--memory", "-m", "--cpus", "--platform", "--pull", "--tmpfs", "--dns", "--device", "--cap-add", "--cap-drop", "--security-opt", "--log-driver", "--log-opt", "--restart", "--gpus", "--ulimit", "--ipc", "--pid"}
)

// scripts are the endings of files that programs run. An argument with one is part
// of the name whether or not the file can be seen from here.
var scripts = []string{".js", ".mjs", ".cjs", ".ts", ".py", ".rb", ".php", ".pl", ".sh", ".jar", ".dll", ".exe"}

// upstreamName is what a server is called that was given no name: its package
// without version, else its program and the first path among its arguments. The
// text alone decides what a path is, since a name that changed when a file appears
// would forget every key; and it decides narrowly, since the name is shown and
// stored, and other arguments may be secrets.
func upstreamName(command []string) string {
	program := programName(command[0])
	for _, r := range runners[program] {
		if name := r.packageName(command[1:]); name != "" {
			return name
		}
	}
	for i, arg := range command[1:] {
		optionValue := i > 0 && strings.HasPrefix(command[i], "-") && command[i] != "--"
		if isScript(arg) || isPath(arg) && !optionValue {
			return program + " " + arg
		}
	}
	return program
}

func isScript(arg string) bool {
	return !strings.HasPrefix(arg, "-") && !strings.Contains(arg, "://") && slices.Contains(scripts, strings.ToLower(filepath.Ext(arg)))
}

// rooted begins a path that says where it begins.
var rooted = regexp.MustCompile(`^(/|\./|\.\./|~/|[A-Za-z]:[\\/]|\.$)`)

func isPath(arg string) bool { return rooted.MatchString(arg) }

func programName(path string) string {
	base := path[strings.LastIndexAny(path, `/\`)+1:]
	for _, suffix := range []string{".exe", ".cmd", ".bat", ".ps1"} {
		if strings.HasSuffix(strings.ToLower(base), suffix) {
			return base[:len(base)-len(suffix)]
		}
	}
	return base
}

// packageName is the package that the arguments name, without its version; empty
// where they name none.
func (r runner) packageName(args []string) string {
	if len(args) < len(r.words) || !slices.Equal(args[:len(r.words)], r.words) {
		return ""
	}
	args = args[len(r.words):]
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if !strings.HasPrefix(arg, "-") {
			return withoutVersion(arg)
		}
		option, value, joined := strings.Cut(arg, "=")
		switch {
		case slices.Contains(r.names, option) && joined:
			return withoutVersion(value)
		case slices.Contains(r.names, option) && i+1 < len(args):
			return withoutVersion(args[i+1])
		case slices.Contains(r.values, option) && !joined:
			i++
		}
	}
	return ""
}

var (
	digestSuffix  = regexp.MustCompile(`@sha256:[0-9a-f]+$`)
	imageTag      = regexp.MustCompile(`:[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	pythonVersion = regexp.MustCompile(`\s*(\[[^]]*\])?\s*(===|==|~=|>=|<=|!=|>|<).*$`)
)

// withoutVersion takes versions off the names of packages and images:
// @scope/name@1.2, name==1.2, registry:5000/name:tag@sha256:….
func withoutVersion(name string) string {
	name = digestSuffix.ReplaceAllString(name, "")
	name = pythonVersion.ReplaceAllString(name, "")
	if at := strings.LastIndexByte(name, '@'); at > 0 && !strings.Contains(name[at:], "/") {
		name = name[:at]
	}
	return imageTag.ReplaceAllString(name, "")
}
