package boundedlog

import (
	"log/slog"
	"net/netip"

	"github.com/lnetd/lnetd/lnet"
)

// Subject is what a log line is about: a peer, an address, or a named object. Subjects can be compared with ==.
// The text is made only when a line is written. The zero value stands for the node itself.
type Subject struct {
	key  string // name of its attribute
	nid  lnet.NID
	addr netip.Addr
	name string
}

// AboutPeer returns a subject for a peer, with the attribute "peer".
func AboutPeer(nid lnet.NID) Subject { return Subject{key: "peer", nid: nid} }

// AboutNI returns a subject for a local NI, with the attribute "ni".
func AboutNI(nid lnet.NID) Subject { return Subject{key: "ni", nid: nid} }

// AboutCaller returns a subject for the remote address of a caller, with the attribute "caller".
func AboutCaller(a netip.Addr) Subject { return Subject{key: "caller", addr: a} }

// About returns a subject for a named object, with the attribute key. In a line that summarizes several such
// subjects, the attribute key+"s" is their number.
func About(key, name string) Subject { return Subject{key: key, name: name} }

// String returns the subject's name without its key.
func (s Subject) String() string {
	switch {
	case s.addr.IsValid():
		return s.addr.String()
	case s.nid != lnet.NID{}:
		return s.nid.String()
	}
	return s.name
}

// Kind returns the name of the subject's attribute, such as "peer" or "ni". It is empty for the zero value.
func (s Subject) Kind() string { return s.key }

// attr returns the subject as an attribute of a line.
func (s Subject) attr() slog.Attr { return slog.String(s.key, s.String()) }
