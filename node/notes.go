package node

import (
	"log/slog"
	"slices"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/selection"
)

// Changes of state that are not logged, but that the watcher of the log gets, if there is
// one (boundedlog.Log.Note).

// noteHealth notes that an NI has lost its full health or has it again.
func (i *ni) noteHealth(before, after int) {
	i.node.noteHealth(before, after, boundedlog.AboutNI(i.NID), "NI is healthy again", "NI has lost health")
}

// notePeerHealth notes that a peer NI has lost its full health or has it again.
func (n *Node) notePeerHealth(p *peerNI, before, after int) {
	n.noteHealth(before, after, boundedlog.AboutPeer(p.NID), "peer NI is healthy again", "peer NI has lost health")
}

func (n *Node) noteHealth(before, after int, of boundedlog.Subject, healthy, lost string) {
	if (before == MaxHealth) == (after == MaxHealth) {
		return
	}
	l := boundedlog.Line{Level: slog.LevelInfo, Text: healthy, Of: of}
	if after < MaxHealth {
		l.Text = lost
	}
	n.log.Note(l, slog.Int("health", after))
}

// setRouteUp records whether a route can be used, and notes a change.
func (n *Node) setRouteUp(r *selection.Route, up bool) {
	if r.Up.Swap(up) == up {
		return
	}
	l := boundedlog.Line{Level: slog.LevelInfo, Text: "route is up", Of: boundedlog.AboutPeer(r.Gateway.NID)}
	if !up {
		l.Text = "route is down"
	}
	n.log.Note(l, slog.Any("net", r.Net))
}

// noteRoutes notes that routes were added or removed.
func (n *Node) noteRoutes(text string, routes []*selection.Route) {
	if !n.log.Watched() {
		return
	}
	for _, r := range routes {
		l := boundedlog.Line{Level: slog.LevelInfo, Text: text, Of: boundedlog.AboutPeer(r.Gateway.NID)}
		n.log.Note(l, slog.Any("net", r.Net))
	}
}

// notePeerRemoved notes that a peer is no longer known.
func (n *Node) notePeerRemoved(v *discovery.View) {
	n.log.Note(boundedlog.Line{Level: slog.LevelInfo, Text: "peer removed", Of: boundedlog.AboutPeer(v.Primary)})
}

// notedNIDs is the maximum number of NIDs that a note names.
const notedNIDs = 8

// notePeer notes that a peer is new, or that its NIDs have changed. before is nil for a
// new peer. New peers that the configuration names are not noted.
func (n *Node) notePeer(before, after *discovery.View) {
	l := boundedlog.Line{Level: slog.LevelInfo, Text: "a new peer is known", Of: boundedlog.AboutPeer(after.Primary)}
	switch {
	case !n.log.Watched(), before == nil && after.State.Has(discovery.Configured):
		return
	case before != nil && (slices.Equal(before.NIDs, after.NIDs) || len(after.NIDs) == 0):
		return
	case before != nil:
		l.Text = "NIDs of a peer have changed"
	}
	n.log.Note(l, slog.Int("count", len(after.NIDs)), slog.Any("nids", after.NIDs[:min(len(after.NIDs), notedNIDs)]))
}
