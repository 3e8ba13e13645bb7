package boundedlog

import (
	"log/slog"
	"net/netip"

	"github.com/lnetd/lnetd/lnet"
)

// Subject is what a line of a log is about: a peer, an address, or something with a
// name. It is a value to compare; its text is made when a line is written. The zero
// value is the node itself.
type Subject struct {
	key  string // of the attribute that names it
	nid  lnet.NID
	addr netip.Addr
	name string
}

// AboutPeer is a peer, the attribute "peer".
func AboutPeer(nid lnet.NID) Subject { return Subject{key: "peer", nid: nid} }

// AboutNI is one of our NIs, the attribute "ni".
func AboutNI(nid lnet.NID) Subject { return Subject{key: "ni", nid: nid} }

// AboutCaller is whoever calls from an address, the attribute "caller".
func AboutCaller(a netip.Addr) Subject { return Subject{key: "caller", addr: a} }

// About is something with a name, the attribute key; key+"s" tells how many.
func About(key, name string) Subject { return Subject{key: key, name: name} }

// String is its name alone.
func (s Subject) String() string {
	switch {
	case s.addr.IsValid():
		return s.addr.String()
	case s.nid != lnet.NID{}:
		return s.nid.String()
	}
	return s.name
}

func (s Subject) attr() slog.Attr { return slog.String(s.key, s.String()) }
