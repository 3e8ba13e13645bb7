package api

import "github.com/lnetd/lnetd/lnet"

// Configuration is the configuration of a node. It is the reply to GET /v1/configuration. Its parts have
// the same form as in the replies about single resources, but in nets, peers and routing only the fields
// that can be configured are set. It omits peers that were only discovered.
type Configuration struct {
	Nets      []Net            `json:"nets"`
	Routes    []Route          `json:"routes"`
	Peers     []ConfiguredPeer `json:"peers"`
	Routing   Routing          `json:"routing"`
	Globals   Globals          `json:"globals"`
	UDSP      []UDSPRule       `json:"udsp"`
	Selection []SelectionRule  `json:"selection"`
	// Lnetd holds what the section "lnetd" of a configuration file would have to contain. It omits
	// selection rules and settings with their default values.
	Lnetd map[string]any `json:"lnetd,omitempty"`
}

// ConfiguredPeer is a peer of a configuration. Its JSON is that of a Peer without the state, which takes most
// of the memory and is zero in a configuration.
type ConfiguredPeer struct {
	Primary   lnet.NID `json:"primary_nid"`
	MultiRail bool     `json:"multi_rail,omitempty"`
	// NIs are all NIDs of the peer, the primary NID first.
	NIs []ConfiguredPeerNI `json:"nis"`
}

// ConfiguredPeerNI is a NID of a configured peer.
type ConfiguredPeerNI struct {
	NID lnet.NID `json:"nid"`
}

// Document is the text of a configuration file.
type Document struct {
	// Name is the name of the document in messages about problems: a file name, or "-".
	Name string `json:"name"`
	// Text is YAML of at most DocumentMax bytes. It may consist of several YAML documents.
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
	// Wait permits NIs whose interface is not usable yet. They are brought up when it becomes
	// usable. If Wait is not set, such NIs are rejected.
	Wait bool `json:"wait,omitempty"`
	// Dry asks for a dry run: the reply contains the changes, but they are not applied.
	Dry bool `json:"dry,omitempty"`
	// Minimal asks for a reply without Before and After, which are as large as the configuration. It
	// is not part of the body, but the header "Prefer: return=minimal" (RFC 7240).
	Minimal bool `json:"-"`
}

// ConfigurationChanged is the reply to POST /v1/configuration. It describes the changes that were made or,
// after a dry run, those that would be made.
type ConfigurationChanged struct {
	// Commands are the lnetdctl commands that would make the same changes, in order and without the
	// word "lnetdctl": "net add --net tcp --if eth0".
	Commands []string `json:"commands"`
	// Warnings describe entries of the document that have no effect, or not the expected one, with
	// their positions.
	Warnings []Problem `json:"warnings"`
	// Restart lists the differences that were not applied because they need a restart of lnetd.
	Restart []string `json:"restart"`
	// Before and After are the configuration before and after the change. After a dry run, After is
	// the configuration that the change would result in. Both are zero, and not part of the JSON, if
	// the request has asked for a minimal reply.
	Before Configuration `json:"before,omitzero"`
	After  Configuration `json:"after,omitzero"`
}

// Preference returns the setting that the header PreferHeader has in a request.
func (c *ConfigurationChange) Preference() (minimal *bool) { return &c.Minimal }

// Headers for shorter replies, as in RFC 7240.
const (
	// PreferHeader is the header with which a client asks for a shorter reply, and PreferMinimal is its
	// value. Servers ignore it in requests that do not have a shorter reply.
	PreferHeader  = "Prefer"
	PreferMinimal = "return=minimal"
	// PreferredHeader is the header of a shorter reply, with the value PreferMinimal.
	PreferredHeader = "Preference-Applied"
)

// Described is the reply to POST /v1/configuration/show, whose body is a Document. It holds the current
// state of the entries that the document names ("import --show"). A section is nil if the document does
// not have it. lnetd sends the peers last, while it reads them from the node.
type Described struct {
	Peers   []Peer     `json:"peers,omitempty"`
	Nets    []Net      `json:"nets,omitempty"`
	Routes  []Route    `json:"routes,omitempty"`
	Routing *Routing   `json:"routing,omitempty"`
	Globals *Globals   `json:"globals,omitempty"`
	UDSP    []UDSPRule `json:"udsp,omitempty"`
	// Selection holds the "selection" rules, which have IDs.
	Selection []SelectionRule `json:"selection,omitempty"`
	// Warnings describe entries of the document that have no effect, with their positions.
	Warnings []Problem `json:"warnings,omitempty"`
	// Details are the levels of detail that the document requests with the key "detail". The keys are
	// names of nets, primary NIDs of peers, and "route" for all routes.
	Details map[string]int64 `json:"details,omitempty"`
}

// Errands is the reply to POST /v1/configuration/errands, whose body is a Document. It lists the
// pings and discoveries that the document requests, in order ("import --exec"), without running
// them.
type Errands struct {
	Errands []Errand `json:"errands"`
}

// Errand is one "ping" or "discover" block of a document. Exactly one of Ping and Discover is set.
type Errand struct {
	Ping     *PingRequest     `json:"ping,omitempty"`
	Discover *DiscoverRequest `json:"discover,omitempty"`
	// SeqNo is the sequence number of the block, if the document gives one.
	SeqNo *int64 `json:"seq_no,omitempty"`
}

// LNet is the body of POST /v1/lnet, for the commands "lnet configure" and "lnet unconfigure". While LNet
// is not configured, most requests fail with CodeNetworkDown.
type LNet struct {
	Configured bool `json:"configured"`
	// All also applies the configuration that lnetd has loaded. Otherwise LNet is configured without
	// NIs. It is valid only if Configured is set.
	All bool `json:"all,omitempty"`
	// Large asks to permit NIDs with 16-byte addresses. It is valid only if Configured is set.
	Large bool `json:"large,omitempty"`
}
