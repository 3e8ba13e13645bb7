package api

// Configuration is what a node is configured to be, in the words of the commands that
// show it, and the reply to GET /v1/configuration. Of nets, peers and routing only what
// can be configured is filled in. Peers that discovery has found are not among it.
type Configuration struct {
	Nets      []Net           `json:"nets"`
	Routes    []Route         `json:"routes"`
	Peers     []Peer          `json:"peers"`
	Routing   Routing         `json:"routing"`
	Globals   Globals         `json:"globals"`
	UDSP      []UDSPRule      `json:"udsp"`
	Selection []SelectionRule `json:"selection"`
	// Lnetd is the section "lnetd" of a file that says the same, without selection rules and
	// without what is the default.
	Lnetd map[string]any `json:"lnetd,omitempty"`
}

// Document is a configuration file as somebody has written it.
type Document struct {
	// Name is what problems call it: a file's name, or "-".
	Name string `json:"name"`
	// Text is YAML, all of its documents, of at most DocumentMax bytes.
	Text string `json:"text"`
}

// DocumentMax bounds the bytes of a document.
const DocumentMax = 16 << 20

// Mode says how a document changes a configuration.
type Mode string

// The modes.
const (
	// ModeAdd adds what the document has, and changes what it says otherwise
	// ("import").
	ModeAdd Mode = "add"
	// ModeDelete takes away what it has ("import --del").
	ModeDelete Mode = "delete"
	// ModeReplace makes the node what it says, and nothing else ("apply").
	ModeReplace Mode = "replace"
)

// ConfigurationChange is the body of POST /v1/configuration. It is made whole or not
// at all.
type ConfigurationChange struct {
	Document
	Mode Mode `json:"mode"`
	// Wait has NIs whose interface is not usable wait for it; else they are refused.
	Wait bool `json:"wait,omitempty"`
	// Dry asks what would be done, and changes nothing.
	Dry bool `json:"dry,omitempty"`
}

// ConfigurationChanged is the reply: what was done, or, if that was asked for, would be.
type ConfigurationChanged struct {
	// Commands do the same, in order, without "lnetdctl": "net add --net tcp --if eth0".
	Commands []string `json:"commands"`
	// Warnings name what was written and has no effect, with its place.
	Warnings []Problem `json:"warnings"`
	// Restart names what differs and takes a restart of lnetd; it is not done.
	Restart []string `json:"restart"`
	// Before and After are the configuration as it was and as it is, or would be.
	Before Configuration `json:"before"`
	After  Configuration `json:"after"`
}

// Described is the reply to POST /v1/configuration/show, whose body is a Document: what
// there is of what the document describes ("import --show"). A part that the document
// does not have is nil.
type Described struct {
	Nets    []Net      `json:"nets,omitempty"`
	Routes  []Route    `json:"routes,omitempty"`
	Peers   []Peer     `json:"peers,omitempty"`
	Routing *Routing   `json:"routing,omitempty"`
	Globals *Globals   `json:"globals,omitempty"`
	UDSP    []UDSPRule `json:"udsp,omitempty"`
	// Details are the levels of detail that the document asks for with the key "detail", of nets by their
	// names, of peers by their primary NIDs, and of routes under "route".
	Details map[string]int64 `json:"details,omitempty"`
}

// Errands is the reply to POST /v1/configuration/errands, whose body is a Document: the
// pings and discoveries that it asks for, in its order ("import --exec"). They are not
// done.
type Errands struct {
	Errands []Errand `json:"errands"`
}

// Errand is one block "ping" or "discover". Exactly one of the two is set.
type Errand struct {
	Ping     *PingRequest     `json:"ping,omitempty"`
	Discover *DiscoverRequest `json:"discover,omitempty"`
	// SeqNo is the number that the document's author has given to the block, if any.
	SeqNo *int64 `json:"seq_no,omitempty"`
}

// LNet is the body of POST /v1/lnet: "lnet configure" and "lnet unconfigure". While LNet
// is not configured, most requests fail with CodeNetworkDown.
type LNet struct {
	Configured bool `json:"configured"`
	// All applies the configuration that lnetd was started with, too.
	All bool `json:"all,omitempty"`
	// Large permits NIDs with 16-byte addresses.
	Large bool `json:"large,omitempty"`
}
