package main

// A step is one thing that a client does. In what it sends, @ stands for the prefix of
// the server's names, ROOT for the folder of the files, TAG for the client's own word,
// KEY for the member that the gateway demands, and TASK for the newest task.
type step struct {
	name           string
	method, params string
	// beside are the methods of what comes beside the answer.
	beside []string
	own    bool // the server asks its client: it has to be this client's own
	alone  bool // what it changes others would see
}

func call(name, tool, arguments string) step {
	return step{name: name, method: "tools/call", params: `{"name":"@` + tool + `","arguments":{` + arguments + `}}`}
}

func (s step) hears(methods ...string) step { s.beside = methods; return s }
func (s step) asks(methods ...string) step  { s.own, s.beside = true, methods; return s }
func (s step) secluded() step               { s.alone = true; return s }

// What servers say without being asked for it.
const (
	logged         = "notifications/message"
	progressed     = "notifications/progress"
	updated        = "notifications/resources/updated"
	resourcesOther = "notifications/resources/list_changed"
)

// A part is what a client does with one server.
type part struct {
	server string
	steps  []step
}

var everythingSteps = part{"everything", []step{
	call("a reader", "echo", `"message":"<&> 9007199254740993 ä\u2028\/"`),
	call("a reader with members of other types", "get-annotated-message", `"messageType":"error","includeImage":true`),
	call("the environment of the server", "get-env", ``),
	call("links to resources", "get-resource-links", `"count":3`),
	call("an embedded resource", "get-resource-reference", `"resourceType":"Text","resourceId":1`),
	call("structured content", "get-structured-content", `"location":"Chicago"`),
	call("numbers", "get-sum", `"a":9007199254740993,"b":1e2`),
	call("arguments that the server refuses", "get-sum", `"a":"one"`),
	call("an image", "get-tiny-image", ``),
	call("a tool that there is not", "nothing", ``),
	{name: "params of a call without a name", method: "tools/call", params: `{"arguments":{}}`},
	call("a tool that makes a resource", "gzip-file-as-resource", `"name":"TAG.gz","data":"data:text/plain,hello","outputType":"resourceLink"KEY`).hears(resourcesOther),
	{name: "a resource that a tool has made", method: "resources/read", params: `{"uri":"demo://resource/session/TAG.gz"}`},
	{
		name: "progress of a token that is a text", method: "tools/call",
		params: `{"name":"@trigger-long-running-operation","arguments":{"duration":0.2,"steps":2KEY},"_meta":{"progressToken":"of TAG"}}`, beside: []string{progressed, progressed},
	},
	{
		name: "progress of a token that is a number", method: "tools/call",
		params: `{"name":"@trigger-long-running-operation","arguments":{"duration":0.1,"steps":1KEY},"_meta":{"progressToken":9007199254740991}}`, beside: []string{progressed},
	},
	call("roots", "get-roots-list", ``).asks(),
	call("sampling", "trigger-sampling-request", `"prompt":"who, TAG?","maxTokens":7KEY`).asks("sampling/createMessage"),
	call("elicitation", "trigger-elicitation-request", `"x":"TAG"KEY`).asks("elicitation/create"),
	call("elicitation by a URL", "trigger-url-elicitation", `"url":"https://example.com/TAG","message":"go","elicitationId":"TAG-1"KEY`).asks("elicitation/create"),
	call("a URL that has to be visited first", "trigger-url-elicitation", `"url":"https://example.com/TAG","message":"go","elicitationId":"TAG-2","errorPath":trueKEY`).asks(),
	call("sampling that may be a task", "trigger-sampling-request-async", `"prompt":"who, TAG?","maxTokens":7KEY`).asks("sampling/createMessage"),
	call("elicitation that may be a task", "trigger-elicitation-request-async", `"x":"TAG"KEY`).asks("elicitation/create"),
	{name: "a resource", method: "resources/read", params: `{"uri":"demo://resource/static/document/features.md"}`},
	{name: "a resource of a template", method: "resources/read", params: `{"uri":"demo://resource/dynamic/text/1"}`},
	{name: "a binary resource of a template", method: "resources/read", params: `{"uri":"demo://resource/dynamic/blob/1"}`},
	{name: "a resource of a template that there is not", method: "resources/read", params: `{"uri":"demo://resource/dynamic/text/none"}`},
	{name: "levels of the log", method: "logging/setLevel", params: `{"level":"debug"}`},
	{name: "a level that there is not", method: "logging/setLevel", params: `{"level":"loud"}`},
	call("log messages", "toggle-simulated-logging", `"x":"TAG"KEY`).hears(logged).secluded(),
	call("no more log messages", "toggle-simulated-logging", `"x":"TAG 2"KEY`).secluded(),
	step{name: "a subscription", method: "resources/subscribe", params: `{"uri":"demo://resource/dynamic/text/7"}`}.hears(logged).secluded(),
	call("updates", "toggle-subscriber-updates", `"x":"TAG"KEY`).hears(updated).secluded(),
	call("no more updates", "toggle-subscriber-updates", `"x":"TAG 2"KEY`).secluded(),
	step{name: "the end of a subscription", method: "resources/unsubscribe", params: `{"uri":"demo://resource/dynamic/text/7"}`}.hears(logged).secluded(),
	{name: "a prompt", method: "prompts/get", params: `{"name":"@simple-prompt"}`},
	{name: "a prompt with arguments", method: "prompts/get", params: `{"name":"@args-prompt","arguments":{"city":"Ulm","state":"BW"}}`},
	{name: "a prompt with a resource", method: "prompts/get", params: `{"name":"@resource-prompt","arguments":{"resourceType":"Text","resourceId":"2"}}`},
	{name: "a prompt without its arguments", method: "prompts/get", params: `{"name":"@args-prompt"}`},
	{name: "a prompt that there is not", method: "prompts/get", params: `{"name":"@nothing"}`},
	{
		name: "completion for a prompt", method: "completion/complete",
		params: `{"ref":{"type":"ref/prompt","name":"@completable-prompt"},"argument":{"name":"name","value":"A"},"context":{"arguments":{"department":"Engineering"}}}`,
	},
	{
		name: "completion for a template", method: "completion/complete",
		params: `{"ref":{"type":"ref/resource","uri":"demo://resource/dynamic/text/{resourceId}"},"argument":{"name":"resourceId","value":"4"}}`,
	},
	call("a tool that is a task, called as none", "simulate-research-query", `"topic":"no TAG"KEY`),
	{name: "a task", method: "tools/call", params: `{"name":"@simulate-research-query","arguments":{"topic":"TAG"KEY},"task":{"ttl":60000}}`},
	{name: "how a task stands", method: "tasks/get", params: `{"taskId":"TASK"}`},
	{name: "the result of a task", method: "tasks/result", params: `{"taskId":"TASK"}`},
	{name: "a task that has ended", method: "tasks/get", params: `{"taskId":"TASK"}`},
	{name: "a task that has ended is cancelled", method: "tasks/cancel", params: `{"taskId":"TASK"}`},
	{name: "a second task", method: "tools/call", params: `{"name":"@simulate-research-query","arguments":{"topic":"TAG 2"KEY},"task":{"ttl":60000}}`},
	{name: "it is cancelled", method: "tasks/cancel", params: `{"taskId":"TASK"}`},
	step{name: "tasks", method: "tasks/list", params: `{}`}.asks(), // who shares a server without a token has the others' too
	{name: "a task that there is not", method: "tasks/get", params: `{"taskId":"nothing"}`},
	{name: "a sign of life", method: "ping", params: `{}`},
	{name: "a method that there is not", method: "nothing/at_all", params: `{}`},
}}

var filesSteps = part{"files", []step{
	call("a folder is made", "create_directory", `"path":"ROOT/TAG"KEY`),
	call("a file is written", "write_file", `"path":"ROOT/TAG/one.txt","content":"first\nsecond <&> 9007199254740993\n"KEY`),
	call("a file is read", "read_text_file", `"path":"ROOT/TAG/one.txt"`),
	call("a file is edited", "edit_file", `"path":"ROOT/TAG/one.txt","edits":[{"oldText":"second","newText":"2nd"}]KEY`),
	call("an edit that does not fit", "edit_file", `"path":"ROOT/TAG/one.txt","edits":[{"oldText":"third","newText":"3rd"}]KEY`),
	call("a file is moved", "move_file", `"source":"ROOT/TAG/one.txt","destination":"ROOT/TAG/two.txt"KEY`),
	call("a file that is gone", "read_text_file", `"path":"ROOT/TAG/one.txt"`),
	call("several files", "read_multiple_files", `"paths":["ROOT/TAG/two.txt","ROOT/TAG/one.txt"]`),
	call("a folder is listed", "list_directory", `"path":"ROOT/TAG"`),
	call("a tree", "directory_tree", `"path":"ROOT/TAG"`),
	call("a search", "search_files", `"path":"ROOT/TAG","pattern":"two*"`),
	call("what is known of a file", "get_file_info", `"path":"ROOT/TAG/two.txt"`),
	call("the folders that are allowed", "list_allowed_directories", ``),
	call("a folder that is not allowed", "list_directory", `"path":"/"`),
}}

var memorySteps = part{"memory", []step{
	call("entities", "create_entities", `"entities":[{"name":"TAG","entityType":"person","observations":["<b> 9007199254740993"]},{"name":"TAG 2","entityType":"person","observations":[]}]KEY`).secluded(),
	call("relations", "create_relations", `"relations":[{"from":"TAG","to":"TAG 2","relationType":"knows"}]KEY`).secluded(),
	step{name: "a subscription", method: "resources/subscribe", params: `{"uri":"memory://knowledge-graph"}`}.secluded(),
	call("observations, of which the subscriber hears", "add_observations", `"observations":[{"entityName":"TAG","contents":["x"]}]KEY`).hears(updated).secluded(),
	step{name: "the end of a subscription", method: "resources/unsubscribe", params: `{"uri":"memory://knowledge-graph"}`}.secluded(),
	call("observations of what is not there", "add_observations", `"observations":[{"entityName":"no TAG","contents":["x"]}]KEY`).secluded(),
	call("the graph", "read_graph", ``).secluded(),
	step{name: "the graph as a resource", method: "resources/read", params: `{"uri":"memory://knowledge-graph"}`}.secluded(),
	call("a search", "search_nodes", `"query":"TAG 2"`).secluded(),
	call("nodes", "open_nodes", `"names":["TAG"]`).secluded(),
	call("observations go", "delete_observations", `"deletions":[{"entityName":"TAG","observations":["x"]}]KEY`).secluded(),
	call("entities go", "delete_entities", `"entityNames":["TAG","TAG 2"]KEY`).secluded(),
}}

// differsShared is differs where clients share the servers.
var differsShared = map[string]string{
	// The gateway keeps each client's level, and sets the server's to the lowest.
	"a level that there is not": `error {"code":-32602,"message":"logging/setLevel: there is no such level"}`,
}

// differs is what clients are told otherwise than by the server, why, and what it is in
// place of the server's words.
var differs = map[string]struct{ why, line string }{
	"a tool that there is not": {
		"which tools there are is looked up before anything is sent, and the answer is the error of the protocol that the revision 2025-11-25 has for it",
		`error {"code":-32602,"message":"Unknown tool: nothing; nothing was sent"}`,
	},
	"params of a call without a name": {
		"without a name there is no server to ask",
		`error {"code":-32602,"message":"tools/call: the params have no name; nothing was sent"}`,
	},
	"a method that there is not": {
		"which of several servers is meant cannot be known",
		`error {"code":-32601,"message":"Method not found: nothing/at_all (several servers stand behind this one, and it is not known whom it concerns)"}`,
	},
}
