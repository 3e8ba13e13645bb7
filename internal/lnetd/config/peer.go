package config

import (
	"slices"

	"github.com/lnetd/lnetd/lnet"
)

// peerNIDsMax bounds the NIDs of one peer (lnetctl 12.2).
const peerNIDsMax = 128

// Peer is the configuration of a peer (lnetctl 9.3, 11).
type Peer struct {
	Primary lnet.NID
	// Others holds the further NIDs, without the primary one and 0@lo.
	Others []lnet.NID
	// SingleRail reports that the peer is not Multi-Rail.
	SingleRail bool
	// Locked reports that the primary NID is locked.
	Locked bool
	// Found reports that the peer was discovered, not configured. It can be deleted, but is
	// discovered again.
	Found bool
	// Listed holds all NIDs in order, if the entry is one of "peers". If it is nil, the entry
	// adds its NIDs to those that the peer has.
	Listed []lnet.NID
	// Where is the position in the file, "name:line: key".
	Where string
}

// peerPositions indexes the peers of a file, of which there may be hundreds of thousands.
type peerPositions struct {
	owner     map[lnet.NID]lnet.NID // the primary NID of the peer that has a NID
	positions map[peerKey]int       // positions in Config.Peers
}

type peerKey struct {
	primary    lnet.NID
	singleRail bool
}

func (p *Peer) key() peerKey { return peerKey{p.Primary, p.SingleRail} }

// first returns the position of the first entry with the given primary NID.
func (s *peerPositions) first(primary lnet.NID) (int, bool) {
	at, there := s.positions[peerKey{primary, false}]
	single, too := s.positions[peerKey{primary, true}]
	if too && (!there || single < at) {
		return single, true
	}
	return at, there
}

// filePeer is an item of "peer" or "peers".
type filePeer struct {
	at             place
	primary        *place // if nil, the first of nids
	multiRail      *place
	nids           []place
	primaryMissing bool // the primary NID is missing, which has been reported
	list           bool // nids is the complete list
}

// readPeers reads "peer". It skips keys that describe state.
func readPeers(at place) []filePeer {
	var peers []filePeer
	for _, item := range at.optionalItems() {
		p := filePeer{at: item}
		for _, m := range item.members(false) {
			switch m.key {
			case "primary nid":
				p.primary = &m.value
			case "Multi-Rail":
				p.multiRail = &m.value
			case "peer ni":
				for _, ni := range m.value.optionalItems() {
					if nid, ok := ni.member("nid"); ok {
						p.nids = append(p.nids, nid)
					} else {
						ni.missing("nid", nidText)
					}
				}
			}
		}
		if p.primary == nil {
			item.missing("primary nid", nidText)
			p.primaryMissing = true
		}
		peers = append(peers, p)
	}
	return peers
}

// readPeerLists reads "peers", the form of the Multi-Rail design (lnetctl 11). An entry lists all
// NIDs of a peer, the primary one first. The design shows them both below "nids" and beside it.
func readPeerLists(at place) []filePeer {
	var peers []filePeer
	for _, item := range at.optionalItems() {
		p := filePeer{at: item, list: true}
		list, ok := item.member("nids")
		if !ok {
			item.missing("nids", nidText)
			continue
		}
		beside := item.numbers()
		switch {
		case list.empty():
			p.nids = beside
		case len(beside) > 0:
			list.problemf("NIDs are given both below 'nids' and, as '%s', next to it", beside[0].key()).remedyf("write all of them below 'nids'")
			continue
		default:
			p.nids = list.values()
		}
		if len(p.nids) == 0 {
			list.problemf("contains no NID").remedy(remedyOf(nidText, ""))
			continue
		}
		peers = append(peers, p)
	}
	return peers
}

// addPeers validates and adds the peers. If a peer occurs twice, it gets the NIDs of both
// entries. An entry of "peers" replaces earlier ones.
func (c *Config) addPeers(list []filePeer) {
	places := peerPositions{map[lnet.NID]lnet.NID{}, map[peerKey]int{}}
	for _, f := range list {
		p, ok := f.peer()
		if !ok {
			continue
		}
		if f.list {
			c.updatePeer(p, &f, &places)
			continue
		}
		c.addPeer(p, &f, &places)
	}
}

// addPeer adds a peer, or adds its NIDs to an existing entry. Contradictory entries are both
// kept, and the node reports the conflict.
func (c *Config) addPeer(p Peer, f *filePeer, places *peerPositions) {
	var added []lnet.NID
	ok := true
	for _, nid := range p.nids() {
		switch other, taken := places.owner[nid]; {
		case !taken:
			added = append(added, nid)
		case other != p.Primary:
			f.at.problemf("%s belongs to the peer %s already", nid, other).remedyf("remove it from one of them")
			ok = false
		}
	}
	if !ok {
		return
	}
	for _, nid := range added {
		places.owner[nid] = p.Primary
	}
	if _, twice := places.first(p.Primary); twice {
		f.at.warn("the peer %s occurs twice: it gets the NIDs of both entries", p.Primary).remedyf("write all of its NIDs in one entry")
	}
	if at, there := places.positions[p.key()]; there {
		c.Peers[at].Others = append(c.Peers[at].Others, added...)
		return
	}
	places.positions[p.key()] = len(c.Peers)
	c.Peers = append(c.Peers, p)
}

func (f *filePeer) peer() (Peer, bool) {
	p := Peer{Where: f.at.position()}
	ok := f.readPrimary(&p)
	if f.multiRail != nil {
		multiRail, valid := f.multiRail.boolean()
		p.SingleRail, ok = !multiRail, ok && valid
	}
	for _, at := range f.nids {
		nids, valid := at.nids(peerNIDsMax)
		ok = ok && valid
		for _, nid := range nids {
			// A node that pings itself shows 0@lo among its own NIDs.
			if nid != p.Primary && !nid.IsLoopback() && !slices.Contains(p.Others, nid) {
				p.Others = append(p.Others, nid)
			}
			if f.list {
				p.Listed = append(p.Listed, nid)
			}
		}
	}
	if len(p.Others) >= peerNIDsMax {
		f.at.problemf("%d NIDs: a peer can have at most %d", 1+len(p.Others), peerNIDsMax).remedyf("check the ranges in its NIDs")
		return p, false
	}
	if nid, clash := p.sameNet(); ok && clash {
		f.at.problemf("%s: a peer that is not Multi-Rail can have only one NID per net", nid).remedyf("write 'Multi-Rail: true', or make the NID a separate peer")
		return p, false
	}
	return p, ok
}

// readPrimary reads the primary NID.
func (f *filePeer) readPrimary(p *Peer) bool {
	primary, most := f.primary, 1
	switch {
	case f.primaryMissing:
		return false
	case primary == nil:
		primary, most = &f.nids[0], peerNIDsMax
	}
	nids, ok := primary.nids(most)
	if !ok {
		return false
	}
	p.Primary = nids[0]
	if p.Primary.IsLoopback() {
		primary.problemf("%s is a NID of this node", p.Primary).remedyf("remove the peer")
		return false
	}
	return true
}

// sameNet returns a NID that prevents the peer from having at most one NID on each net.
func (p *Peer) sameNet() (lnet.NID, bool) {
	nets := map[lnet.Net]bool{p.Primary.Net(): true}
	for _, nid := range p.Others {
		if p.SingleRail && nets[nid.Net()] {
			return nid, true
		}
		nets[nid.Net()] = true
	}
	return lnet.NID{}, false
}

// Named returns the NIDs by which an entry identifies a peer, in order. These are all NIDs of a
// list, or else the primary one.
func (p *Peer) Named() []lnet.NID {
	if p.Listed != nil {
		return p.Listed
	}
	return []lnet.NID{p.Primary}
}

// WithPrimary returns the peer with nid as its primary NID, if nid is one of its NIDs.
func (p *Peer) WithPrimary(nid lnet.NID) Peer {
	out := *p
	if slices.Contains(p.Others, nid) {
		out.Primary, out.Others = nid, Without(p.nids(), []lnet.NID{nid})
	}
	return out
}
