package config

import (
	"slices"

	"github.com/lnetd/lnetd/lnet"
)

// peerNIDsMax is the maximum number of NIDs of a peer (lnetctl 12.2).
const peerNIDsMax = 128

// Peer is the configuration of a peer (lnetctl 9.3, 11).
type Peer struct {
	Primary lnet.NID
	// Others holds the NIDs of the peer other than the primary one and 0@lo.
	Others []lnet.NID
	// SingleRail reports that the peer is not Multi-Rail.
	SingleRail bool
	// Locked reports that the primary NID is locked.
	Locked bool
	// Found reports that the peer was only discovered, not configured. After it has been deleted, it
	// may be discovered again.
	Found bool
	// Listed holds all NIDs in order, if the entry is one of "peers". Such an entry replaces the
	// NIDs that the peer has. If Listed is nil, the entry only adds its NIDs.
	Listed []lnet.NID
	// Where is the position in the file, "name:line: key".
	Where string
}

// peerPositions is an index of the peers that have been read from a file. It avoids a search through the
// list for every entry, because there may be hundreds of thousands.
type peerPositions struct {
	owner     map[lnet.NID]lnet.NID // for each NID, the primary NID of the peer that has it
	positions map[peerKey]int       // positions in Config.Peers
}

type peerKey struct {
	primary    lnet.NID
	singleRail bool
}

func (p *Peer) key() peerKey { return peerKey{p.Primary, p.SingleRail} }

// first returns the position in Config.Peers of the first peer with the given primary NID. Such a peer
// can occur twice if two entries contradict each other (see addPeer).
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
	primary        *place // the value of "primary nid"; if nil, the first of nids is the primary NID
	multiRail      *place
	nids           []place
	primaryMissing bool // the primary NID is missing, which has been reported
	list           bool // the item is one of "peers", whose NIDs replace those that the peer has
	listsPrimary   bool // nids contain the primary NID; set by peer
}

// eachPeer calls read for each item of "peer" and "peers", in order, whose keys are valid.
func (f *file) eachPeer(read func(p *filePeer)) {
	for _, at := range f.peers {
		list := at.key() == "peers"
		at.eachItem(func(item place) {
			if !list {
				read(readPeer(item))
			} else if p, ok := readPeerList(item); ok {
				read(&p)
			}
		})
	}
}

// readPeer returns the item at of "peer". It ignores keys that describe state.
func readPeer(at place) *filePeer {
	p := &filePeer{at: at}
	for _, m := range at.members(false) {
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
		at.missing("primary nid", nidText)
		p.primaryMissing = true
	}
	return p
}

// readPeerList returns the item at of "peers", the form of the Multi-Rail design (lnetctl 11). It lists all NIDs
// of a peer, the primary one first. They may be below the key "nids" or, because the design also shows this,
// next to it. readPeerList returns false if it has reported a problem.
func readPeerList(at place) (p filePeer, ok bool) {
	p.at, p.list = at, true
	list, ok := at.member("nids")
	if !ok {
		at.missing("nids", nidText)
		return p, false
	}
	beside := at.numbers()
	switch {
	case list.empty():
		p.nids = beside
	case len(beside) > 0:
		list.problemf("NIDs are given both below 'nids' and, as '%s', next to it", beside[0].key()).remedyf("write all of them below 'nids'")
		return p, false
	default:
		p.nids = list.values()
	}
	if len(p.nids) == 0 {
		list.problemf("contains no NID").remedy(remedyOf(nidText, ""))
	}
	return p, len(p.nids) > 0
}

// addPeers validates the items of "peer" and "peers" in f and adds the peers to c. If several items of "peer"
// describe the same peer, it gets the NIDs of all of them. An item of "peers" replaces the NIDs of
// earlier items.
func (c *Config) addPeers(f *file) {
	places := peerPositions{map[lnet.NID]lnet.NID{}, map[peerKey]int{}}
	f.eachPeer(func(f *filePeer) {
		p, ok := f.peer()
		switch {
		case !ok:
		case f.list:
			c.updatePeer(p, f, &places)
		default:
			c.addPeer(p, f, &places)
		}
	})
}

// addPeer adds the peer p, an item of "peer", to c. If c has a peer with the same primary NID and the same
// value of "Multi-Rail", addPeer adds the NIDs to it. If only the values of "Multi-Rail" differ, both
// peers are kept, and the node reports the conflict.
func (c *Config) addPeer(p Peer, f *filePeer, places *peerPositions) {
	ok := true
	for nid := range p.eachNID() {
		if other, taken := places.owner[nid]; taken && other != p.Primary {
			f.at.problemf("%s belongs to the peer %s already", nid, other).remedyf("remove it from one of them")
			ok = false
		}
	}
	if !ok {
		return
	}
	if _, twice := places.first(p.Primary); twice {
		f.at.warn("the peer %s occurs twice: it gets the NIDs of both entries", p.Primary).remedyf("write all of its NIDs in one entry")
	}
	at, there := places.positions[p.key()]
	if !there {
		places.positions[p.key()] = len(c.Peers)
		c.Peers = append(c.Peers, p)
	}
	for nid := range p.eachNID() {
		if _, has := places.owner[nid]; there && !has {
			c.Peers[at].Others = append(c.Peers[at].Others, nid)
		}
		places.owner[nid] = p.Primary
	}
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
			f.listsPrimary = f.listsPrimary || nid == p.Primary
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

// readPrimary stores the primary NID of the item in p. It returns false if it has reported a problem.
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

// sameNet returns a NID that is on the same net as another NID of the peer, and true, if the peer is not
// Multi-Rail. Such a peer may have only one NID on each net.
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

// Named returns the NIDs by which an entry identifies a peer, in order. An entry of "peers" identifies it
// by any of its NIDs, an entry of "peer" only by the primary NID.
func (p *Peer) Named() []lnet.NID {
	if p.Listed != nil {
		return p.Listed
	}
	return []lnet.NID{p.Primary}
}

// WithPrimary returns p with nid as the primary NID. If p does not have nid, WithPrimary returns p
// unchanged.
func (p *Peer) WithPrimary(nid lnet.NID) Peer {
	out := *p
	if slices.Contains(p.Others, nid) {
		out.Primary, out.Others = nid, Without(p.nids(), []lnet.NID{nid})
	}
	return out
}
