package upstream

import "regexp"

// The default texts. They were collected from what SDKs, HTTP clients, runtimes
// and payment, mail and cloud APIs write. A text that is missed among the
// ambiguous ones lets a caller believe that nothing happened, so that list is
// the generous one; the refusals are definite.

// aboutInput and aboutOutput tell the two uses of -32602 apart.
var (
	aboutInput = regexp.MustCompile(`(?i)\b(inputs?|arguments?|args?|param(eter)?s?|propert(y|ies)|fields?|keys?|schema|required|missing|` +
		`unrecognized|unknown|expected|must|invalid|malformed|cursor|tool .{0,200}(not found|disabled)|no such tool|does not exist)\b`)
	aboutOutput = regexp.MustCompile(`(?i)(\boutputs?\b|\boutput ?schema\b|structured ?content|\b(the|tool|invalid|its) (results?|responses?)\b|\breturned\b|\breturn value\b)`)
)

// serverStatus are the HTTP statuses with which a server, or one in between,
// says that it broke down; 520 to 527 and 530 are those of a content delivery network.
const serverStatus = `5(0[0234]|2[0-7]|30)`

// timeoutName is the name of a parameter that is a time limit: one word, perhaps in
// quotes. By itself it proves nothing, since "timeout" is also what happens.
const timeoutName = "['\"`]?\\b[\\w.-]*time[_-]?outs?(_?(ms|s|secs?|seconds))?\\b['\"`]?"

// harmlessTexts cut talk of such a parameter out of a text. Each demands a wording
// that only a validator uses: a real timeout that is taken for a parameter would
// free a key although the call may have executed.
var harmlessTexts = compile(
	// what the value has to be
	timeoutName+`:?\s+(value\s+)?((must|should|has to|needs to) be (a|an|in|at|of|one|no|set|between|within|positive|negative|greater|less|larger|smaller|number|integer|string|numeric|valid|[<>=\d])`+
		`|is (an? )?(required|missing|out of range|not an?)\b|expected an?\b|input should be\b)`,
	timeoutName+`: required\b`,
	// what is refused: the noun says that it is a parameter
	`\b(invalid|unsupported|negative|illegal)( \w+)? `+timeoutName+` (value|parameter|argument|option|setting|format)s?\b`,
	`\binvalid (type|value) (for|of) `+timeoutName,
	`\b(unknown|unexpected|unrecognized|unsupported|invalid|missing|required)( keyword)? (parameter|argument|option|arg)s?:? `+timeoutName,
	"\\b(parameter|argument|option|field|property)s? ['\"`][\\w-]*time[_-]?outs?\\w*['\"`]",
	"['\"`][\\w-]*time[_-]?outs?\\w*['\"`] (is (an? )?(required|missing|invalid|not)|(was|were) unexpected)\\b",
	// where a validator says it stands
	`"?\bpath"?\s*:\s*\[[^\]]*\]`,
	`→ at `+timeoutName+`|\b(instance|properties['"]\])\[`+timeoutName+`\]`,
)

var ambiguousTexts = compile(
	// time ran out
	`\btimed[ -]?out\b`,
	`\b(time[ -]?out|E(SOCKET)?TIMEDOUT|\w*Timeout(Error|Exception|Expired))\b`,
	`\btimeout_?error\b|\b(read|write|connect|pool|socket|request|response|gateway)_?timeout\b`,
	`\bdeadline[ _]?(has |was )?(been )?exceeded\b|\bdeadline (expired|reached|passed)\b|\b(context|operation|request) deadline\b`,
	`\btook too long\b|\bno (response|answer|reply)\b|\b(did|does) not (respond|answer|reply)\b|\bdidn't (respond|answer|reply)\b|\bwithout (a |any )?(response|answer|reply)\b`,
	// the connection broke
	`\b(connection|stream|socket|transport|pipe|peer)\b.{0,40}\b(reset|aborted|closed|closing|lost|dropped|broken|interrupted|terminated|hung up|died|gone)\b`,
	`\bconnection (error|failure|failed)\b|\b(server|channel|client|process) (is )?(closing|shutting down)\b|\bsession (id )?(was |is )?not found\b`,
	`\b(session|server) (was |has been |is |has |unexpectedly )*(reset|aborted|closed|lost|dropped|terminated|hung up|died|gone)\b`,
	`\b(closed|reset|dropped|aborted|lost|broke|terminated|interrupted) (the |by |its )*(connection|stream|socket|peer|pipe|remote)\b`,
	`\bECONN(RESET|ABORTED)\b|\bEPIPE\b|\bENETRESET\b|\bENETDOWN\b|\bENETUNREACH\b|\bEHOSTUNREACH\b|\bERR_(CONNECTION|NETWORK|STREAM|HTTP2|SOCKET)\w*|\bUND_ERR\w*`,
	`\bsocket hang ?up\b|\bhang ?up\b|\bbroken pipe\b|\bdisconnected\b|\bpremature(ly)? (close|closed|end|ended|eof)\b|\b(closed|ended|finished) prematurely\b|\bother side closed\b`,
	`\bnetwork[ _-]?(error|failure|issue|problem|unreachable|is unreachable|changed|interruption)\b|\bfetch failed\b|\bfailed to fetch\b`,
	`\b(unexpected )?EOF\b|\bEOFError\b|\bunexpected end of (file|stream|input|json|data)\b|\bincomplete ?(read|response|chunked|message)\w*|`+
		`\b(response|reply|answer|payload|body|stream) .{0,20}\bnot (been )?(complete|completed|finished|(completely|fully) (read|received))\b`,
	`\b(remote )?protocol ?error\b|\bstream error\b|\bGOAWAY\b|\bRST_STREAM\b|\bpeer closed\b`,
	// the names of classes, which have no blanks
	`\b\w*(Connection(Reset|Aborted|Closed|Lost|Terminated|Broken)?|Disconnect(ed)?|Protocol|Network|Payload|Socket|Transport|Stream(Closed|Reset)?|BrokenPipe|`+
		`ClientOS|ChunkedEncoding|(Closed|Broken)Resource|InternalServer|ServiceUnavailable|BadGateway|GatewayTime-?out|(Task|Operation)?Cancell?ed)(Error|Exception)\b`,
	`\b(Read|Write)Error\b|\b(RemoteDisconnected|ConnectionClosed|ServiceUnavailable|BadGateway|NoHttpResponseException|SSLEOFError|EOFException)\b`,
	// a gRPC status, in the spellings of its languages
	`\bcode ?[=:] ?(Unavailable|Aborted|Unknown|DeadlineExceeded|Internal|DataLoss|Cancell?ed)\b|\bStatusCode\.(UNAVAILABLE|ABORTED|UNKNOWN|DEADLINE_?EXCEEDED|INTERNAL|DATA_?LOSS|CANCELL?ED)\b`,
	`(?-i:\bUNAVAILABLE\b|\b(1|2|4|10|13|14|15) (CANCELLED|UNKNOWN|DEADLINE_EXCEEDED|ABORTED|INTERNAL|DATA_LOSS)\b|"status": ?"(UNKNOWN|DEADLINE_EXCEEDED|ABORTED|INTERNAL|DATA_LOSS)"|(^|: )Unavailable(:|$))|^unavailable: `,
	// a server in between, or one that broke down
	`\bbad gateway\b|\bgateway[ -]?time[ -]?out\b|\bservice (is )?(temporarily )?unavailable\b|\bserver (is )?(temporarily )?unavailable\b|\bupstream (error|failure|request|connect)\b`,
	`\binternal (server )?error\b|\bserver error\b|\bunknown error\b|\bunexpected error\b|\bunhandled (error|exception|rejection)\b`,
	`\b(https?|status|status ?code|code|error|response|returned|answered|responded)\b[ :=/"'(\[#]*(1\.[01]|2(\.0)?)?[ ]?((with|of|an?|http|error|status|code)[ :=#"']*)*\b`+serverStatus+`\b`,
	`\b`+serverStatus+`\b[ :,-]*(error|internal|bad gateway|service unavailable|gateway)\b|\bHTTP_?`+serverStatus+`\b|\b5xx\b`,
	`\b408\b.{0,5}request time`,
	// an answer came and could not be read
	`\b(invalid|unexpected|malformed|unparsable|unparseable|unreadable|bad|empty|truncated|corrupt(ed)?) (json |http |xml |server |api )?(response|reply|answer)\b`,
	`\b(parse|parsing|decode|decoding|read|reading|deserialize)\b.{0,20}\b(response|reply|answer)\b`,
	`\bunexpected token\b.{0,40}\bjson\b|\bis not valid json\b|\bJSONDecodeError\b|\bexpecting value: line\b`,
	`\boutput (validation|schema)\b|\bstructured ?content\b|\boutput ?schema\b|\binvalid output\b`,
	// it says itself that it does not know
	`\b(may|might|could) (already |still |or may not |not |also |well )*(have|be (partially|partly|still|in progress)|complete|succeed)\b`,
	`\b(unknown|unclear|uncertain|unsure|not (known|sure|certain|clear)|cannot (tell|determine|confirm|verify)|can't (tell|determine|confirm|verify)|could not (determine|confirm|verify)|unable to (determine|confirm|verify)) (whether|if|that)\b`,
	`\b(status|state|outcome|result|effect) (is |was |remains )?(unknown|uncertain|unclear|indeterminate|undetermined)\b|\bunknown (status|state|outcome|result)\b|\bindeterminate\b`,
	`\b(partial(ly)?|partly) (completed?|executed|applied|failed|succeeded|sent|processed|failure|success)\b`,
	`\b(was|were|been|got|operation|request|call|context|task|execution) (cancell?ed|interrupted|aborted|killed)\b|\bcontext cancell?ed\b|\bAbortError\b|\bCancelledError\b`,
	`\bdeadlock\b|\block wait\b|\bcould not serialize\b|\bserialization failure\b|\bserver closed\b|\bcrash(ed)?\b`,
)

var refusalTexts = compile(
	`\bnot[ _]?found\b|\bno such\b|\b(does|do|did) ?(not|n't|n’t) exist\b|\bunknown (tool|method|parameter|argument|param|field|property|option|resource|prompt|id|key|user|account|order|column|table|command|name|value|type)\b`,
	`\binvalid\b|\bmalformed\b|\bbad request\b|\bnot (a )?valid\b|\bvalidation\b|\bvalid(ate)? failed\b|\billegal argument\b|\bunrecognized\b`,
	`\b(is|are|was|were) (required|missing|not (supported|allowed|permitted|enabled|available|authori[sz]ed|implemented))\b|\bmissing (required )?\b|\brequired (parameter|argument|field|property|param|key|value)\b|\bmust (be|not|have|contain|match|provide|specify)\b`,
	`\bunauthori[sz]ed\b|\bunauthenticated\b|\bauthentication\b|\bnot (authori[sz]ed|authenticated|logged in)\b|\bauthori[sz]ation\b|\b(invalid|bad|expired|wrong) (token|credentials?|api key|password|session)\b|\b(token|session|credentials?|api key) (has |have |is )?expired\b`,
	`\bforbidden\b|\bpermissions?\b|\baccess denied\b|\bdenied\b|\bnot (permitted|allowed)\b|\bprivileges?\b|\binsufficient\b|\bread-?only\b|\bE(ACCES|PERM|ROFS|EXIST|NOENT|ISDIR|NOTDIR)\b`,
	`\brate[ -]?limit(s|ed|ing)?\b|\btoo many requests\b|\bquota\b|\bthrottl(ed|ing)\b|\blimit (was |has been |is )?(reached|exceeded)\b|\bexceeds? (the )?(limit|maximum|quota|balance)\b`,
	`\balready (exists?|in use|taken|been|registered|refunded|cancell?ed|closed|paid)\b|\bduplicate\b|\bconflicts?\b|\bunique constraint\b`,
	`\b(card|payment|transaction|request|order|operation) (was |has been |is )?(declined|rejected|refused|blocked)\b|\brefus(ed|es|ing) to\b|\brejected\b|\bdeclined\b`,
	`\bunsupported\b|\bnot supported\b|\bnot implemented\b|\bout of range\b|\btoo (long|short|large|small|big|many|few)\b|\bexpected\b.{0,60}\b(got|received|but)\b|\bdisabled\b`,
	`\b(https?|status|code|error|response|returned)\b[ :=/"'(]*(status |code )*(400|401|402|403|404|405|406|409|410|412|413|415|422|429)\b`,
)

// DefaultJudgement returns the judgement of a server of which nothing is known.
// Its lists may be appended to.
func DefaultJudgement() Judgement {
	return Judgement{
		HarmlessTexts:  append([]*regexp.Regexp(nil), harmlessTexts...),
		AmbiguousTexts: append([]*regexp.Regexp(nil), ambiguousTexts...),
		RefusalTexts:   append([]*regexp.Regexp(nil), refusalTexts...),
	}
}

// compile compiles the patterns, case ignored.
func compile(patterns ...string) []*regexp.Regexp {
	compiled := make([]*regexp.Regexp, len(patterns))
	for i, pattern := range patterns {
		compiled[i] = regexp.MustCompile("(?i)" + pattern)
	}
	return compiled
}
