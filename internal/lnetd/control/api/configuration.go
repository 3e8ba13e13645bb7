package api

// Configuration is the configuration of a node, in the types that the show commands use, and the
// reply to GET /v1/configuration. In nets, peers and routing, only the configurable fields are set.
// Peers found by discovery are left out.
type Configuration struct {
	Nets      []Net           `json:"nets"`
	Routes    []Route         `json:"routes"`
	Peers     []Peer          `json:"peers"`
	Routing   Routing         `json:"routing"`
	Globals   Globals         `json:"globals"`
	UDSP      []UDSPRule      `json:"udsp"`
	Selection []SelectionRule `json:"selection"`
	// Lnetd is the equivalent "lnetd" section of a configuration file, without selection rules and
	// default values.
	Lnetd map[string]any `json:"lnetd,omitempty"`
}

// Document is the text of a configuration file.
type Document struct {
	// Name names the document in problem reports: a file name, or "-".
	Name string `json:"name"`
	// Text is YAML, possibly with several documents, of at most DocumentMax bytes.
	Text string `json:"text"`
}

// DocumentMax is the maximum size of a document in bytes.
const DocumentMax = 16 << 20

// Mode says how a document changes a configuration.
type Mode string

// The modes.
const (
	// ModeAdd adds the entries of the document and changes those that differ ("import").
	ModeAdd Mode = "add"
	// ModeDelete deletes the entries of the document ("import --del").
	ModeDelete Mode = "delete"
	// ModeReplace makes the configuration equal to the document ("apply").
	ModeReplace Mode = "replace"
)

// ConfigurationChange is the body of POST /v1/configuration. The change is applied as a whole or
// not at all.
type ConfigurationChange struct {
	Document
	Mode Mode `json:"mode"`
	// Wait lets NIs wait for an interface that is not usable yet. Otherwise such NIs are rejected.
	Wait bool `json:"wait,omitempty"`
	// Dry returns the changes without applying them.
	Dry bool `json:"dry,omitempty"`
}

// ConfigurationChanged is the reply: the changes that were made, or would be made in a dry run.
type ConfigurationChanged struct {
	// Commands are equivalent lnetdctl commands, in order, without "lnetdctl": "net add --net tcp
	// --if eth0".
	Commands []string `json:"commands"`
	// Warnings are the entries that have no effect, with their positions.
	Warnings []Problem `json:"warnings"`
	// Restart lists the differences that only a restart of lnetd can apply.
	Restart []string `json:"restart"`
	// Before and After are the configuration before and after the change, or the dry run.
	Before Configuration `json:"before"`
	After  Configuration `json:"after"`
}

// Described is the reply to POST /v1/configuration/show, whose body is a Document. It holds the
// current state of the entries in the document ("import --show"). A section that the document lacks
// is nil.
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

// Errands is the reply to POST /v1/configuration/errands, whose body is a Document. It lists the
// pings and discoveries that the document requests, in order ("import --exec"), without running
// them.
type Errands struct {
	Errands []Errand `json:"errands"`
}

// Errand is one "ping" or "discover" block. Exactly one of Ping and Discover is set.
type Errand struct {
	Ping     *PingRequest     `json:"ping,omitempty"`
	Discover *DiscoverRequest `json:"discover,omitempty"`
	// SeqNo is the sequence number of the block, if the document gives one.
	SeqNo *int64 `json:"seq_no,omitempty"`
}

// LNet is the body of POST /v1/lnet: "lnet configure" and "lnet unconfigure". While LNet is not
// configured, most requests fail with CodeNetworkDown.
type LNet struct {
	Configured bool `json:"configured"`
	// All also applies the configuration that lnetd was started with.
	All bool `json:"all,omitempty"`
	// Large permits NIDs with 16-byte addresses.
	Large bool `json:"large,omitempty"`
}
