package control

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
)

// PeerNIDsMax bounds the NIDs that one request names beside the primary one.
const PeerNIDsMax = 128

// Peers is the reply to GET /v1/peers.
type Peers struct {
	Peers []Peer `json:"peers"`
	// Next, in a part of the answer, says where the next one begins; empty: this
	// is the last.
	Next string `json:"next,omitempty"`
}

// Peer is a node that this one knows of.
type Peer struct {
	// ID grows with the peers' youth; only the daemon knows it.
	ID        uint64   `json:"-"`
	Primary   lnet.NID `json:"primary_nid"`
	MultiRail bool     `json:"multi_rail"`
	// State is the word of flags.
	State uint32 `json:"state"`
	// Seq is the sequence number that the peer told last, Told the one of ours
	// that it was told.
	Seq     uint32 `json:"seq"`
	Told    uint32 `json:"told"`
	Gateway bool   `json:"gateway"`
	// NIs are its NIDs by net, the primary one's net first.
	NIs []PeerNI `json:"nis"`
}

// PeerNI is all that "peer show -v 4" prints about one NID (lnetctl 5.4). The
// detail of a field is the level from which on that is printed.
type PeerNI struct {
	NID lnet.NID `json:"nid"`
	// State is "up" or "down" where that is looked after, else "NA".
	State string `json:"state"`
	// Trouble is why other NIDs of the peer are taken first, if so: "not answering
	// since" a time, or "link down".
	Trouble       string          `json:"trouble,omitempty" detail:"1"`
	Credits       Credits         `json:"tx_credits" detail:"1"`
	RouterCredits Credits         `json:"router_credits" detail:"1"`
	QueuedBytes   int64           `json:"queued_bytes" detail:"1"`
	Refs          int             `json:"refcount" detail:"1"`
	Statistics    Statistics      `json:"statistics" detail:"1"`
	UDSP          UDSPInfo        `json:"udsp_info" detail:"4"`
	Sent          MessageCounts   `json:"sent_stats" detail:"2"`
	Received      MessageCounts   `json:"received_stats" detail:"2"`
	Dropped       MessageCounts   `json:"dropped_stats" detail:"2"`
	Health        PeerHealthStats `json:"health_stats" detail:"2"`
}

// Credits bound the messages under way to a peer NI. Available is below 0 by
// the number of those that wait; Min is the lowest that it ever was.
type Credits struct {
	Max       int `json:"max"`
	Available int `json:"available"`
	Min       int `json:"min"`
}

// PeerHealthStats are a peer NI's health and what lowered it.
type PeerHealthStats struct {
	Value           int    `json:"health_value"` // 0 to 1000
	Dropped         uint64 `json:"dropped"`
	Timeouts        uint64 `json:"timeout"`
	Errors          uint64 `json:"error"`
	NetworkTimeouts uint64 `json:"network_timeout"`
	PingCount       uint64 `json:"ping_count"`
	NextPing        int64  `json:"next_ping"` // seconds since boot, 0: none due
}

// PeerAddition is the body of POST /v1/peers: a peer, or more NIDs for one.
type PeerAddition struct {
	Primary lnet.NID   `json:"primary_nid"`
	NIDs    []lnet.NID `json:"nids,omitempty"`
	// SingleRail: the peer is not Multi-Rail.
	SingleRail  bool `json:"single_rail,omitempty"`
	LockPrimary bool `json:"lock_primary,omitempty"`
}

// PeerDeletion is the body of DELETE /v1/peers: NIDs of a peer, or, if there are
// none or the primary one is among them, the peer.
type PeerDeletion struct {
	Primary lnet.NID   `json:"primary_nid"`
	NIDs    []lnet.NID `json:"nids,omitempty"`
	// Force deletes a peer whose primary NID is locked.
	Force bool `json:"force,omitempty"`
}

// PeersDetail is the detail in which all is told of peers.
const PeersDetail = 4

// Peers asks for the peers, or, with a NID, for the peer that has it.
func (c *Client) Peers(ctx context.Context, nid string) ([]Peer, error) {
	var peers []Peer
	for p, err := range c.EachPeer(ctx, nid, PeersDetail) {
		if err != nil {
			return nil, err
		}
		peers = append(peers, p)
	}
	return peers, nil
}

// EachPeer asks as Peers does. Of the peers' NIs no more is told than "peer show"
// prints at the level of detail, 0 to PeersDetail. However many there are, only a
// part of them is in memory; an error is the last thing that comes.
func (c *Client) EachPeer(ctx context.Context, nid string, detail int) iter.Seq2[Peer, error] {
	ask := parameters{"nid": nid}
	if nid == "" {
		ask = parameters{"page": FirstPage, "detail": strconv.Itoa(detail)}
	}
	return func(yield func(Peer, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for part := c.peersPart(ctx, ask); part != nil; {
			p := <-part
			if p.err != nil {
				yield(Peer{}, p.err)
				return
			}
			part = nil
			if p.Next != "" { // while this part is looked at
				part = c.peersPart(ctx, parameters{"page": p.Next, "detail": ask["detail"]})
			}
			for _, peer := range p.Peers.Peers {
				if peer.NIs == nil { // it had none
					peer.NIs = []PeerNI{}
				}
				if !yield(peer, nil) {
					cancel()
					if part != nil {
						<-part
					}
					return
				}
			}
		}
	}
}

// peersPart is a part of the peers, or why it did not come.
type peersPart struct {
	Peers
	err error
}

// peersPart asks for a part of the peers and returns at once.
func (c *Client) peersPart(ctx context.Context, ask parameters) <-chan peersPart {
	answered := make(chan peersPart, 1)
	go func() {
		var p peersPart
		p.err = c.get(ctx, "/v1/peers", ask, &p.Peers)
		answered <- p
	}()
	return answered
}

// AddPeer makes a peer, or gives it more NIDs.
func (c *Client) AddPeer(ctx context.Context, r PeerAddition) error {
	return c.post(ctx, "/v1/peers", r)
}

// DeletePeer deletes a peer, or takes NIDs away from it.
func (c *Client) DeletePeer(ctx context.Context, r PeerDeletion) error {
	return c.remove(ctx, "/v1/peers", r)
}

func (h *handlers) peers(ctx context.Context, q query) (list[Peer], *Fault) {
	nid, fault := q.nid("nid")
	if fault != nil {
		return list[Peer]{}, fault
	}
	detail, detailed, fault := q.number("detail")
	if fault != nil {
		return list[Peer]{}, fault
	}
	page, paged := q["page"]
	switch {
	case !nid.IsZero() && paged || detailed && !paged:
		return list[Peer]{}, invalidRequest("page is for all peers, and detail for pages", nil)
	case !nid.IsZero():
		return h.peer(nid)
	case !paged:
		return list[Peer]{key: "peers", items: h.Backend.Peers(ctx, 0)}, nil
	case !detailed:
		detail = PeersDetail
	}
	after, fault := h.parsePage(page)
	if fault != nil {
		return list[Peer]{}, fault
	}
	c := newCompact(int(min(detail, PeersDetail)))
	return list[Peer]{
		key: "peers", items: h.Backend.Peers(ctx, after),
		encode: func(b []byte, p *Peer) ([]byte, error) { return c.append(b, p) },
		after:  func(last *Peer) string { return h.pageAfter(discovery.PeerID(last.ID)) },
	}, nil
}

func (h *handlers) peer(nid lnet.NID) (list[Peer], *Fault) {
	p, ok := h.Backend.Peer(nid)
	if !ok {
		return list[Peer]{}, &Fault{
			Code: CodePeerUnknown, Errno: -int(syscall.ENOENT), Text: "cannot find peer",
			Cause:  "no peer has the NID " + nid.String(),
			Remedy: "see the peers with: lnetdctl peer show",
		}
	}
	return listOf("peers", []Peer{p}, func(_ int, p *Peer) (Peer, bool) { return *p, true }), nil
}

// FirstPage is where the list of peers begins.
const FirstPage = "0"

// pageAfter names the page behind a peer. A page belongs to one life of the
// daemon, which numbers its peers.
func (h *handlers) pageAfter(id discovery.PeerID) string {
	return fmt.Sprintf("%d-%x", id, h.Backend.Version().Started.UnixNano())
}

// parsePage is the peer behind which a page begins.
func (h *handlers) parsePage(page string) (id discovery.PeerID, _ *Fault) {
	if page == FirstPage {
		return 0, nil
	}
	number, _, _ := strings.Cut(page, "-")
	n, err := strconv.ParseUint(number, 10, 64)
	id = discovery.PeerID(n)
	if err != nil || page != h.pageAfter(id) {
		return 0, &Fault{
			Code: CodeRequestInvalid, Errno: -int(syscall.EAGAIN), Text: "there is no such page of peers",
			Cause:  "page " + strconv.Quote(page) + " was not named by this lnetd, which may have been restarted",
			Remedy: "begin with page " + FirstPage + " again",
		}
	}
	return id, nil
}

func (h *handlers) addPeer(ctx context.Context, r *PeerAddition) *Fault {
	if fault := checkPeerNIDs(r.Primary, r.NIDs); fault != nil {
		return fault
	}
	o := discovery.ConfigureOptions{SingleRail: r.SingleRail, Lock: r.LockPrimary}
	err := h.Backend.AddPeer(ctx, r.Primary, r.NIDs, o)
	if err == nil {
		return nil
	}
	text := "failed to add primary peer"
	if p := (*discovery.PeerError)(nil); errors.As(err, &p) && !p.NID.IsZero() && p.NID != p.Peer {
		text = "failed to add peer"
	}
	return peerFault(text, err)
}

func (h *handlers) deletePeer(ctx context.Context, r *PeerDeletion) *Fault {
	if fault := checkPeerNIDs(r.Primary, r.NIDs); fault != nil {
		return fault
	}
	whole := len(r.NIDs) == 0 || slices.Contains(r.NIDs, r.Primary)
	err := h.checkDeletion(r)
	switch {
	case err != nil:
	case whole:
		err = h.Backend.DeletePeer(ctx, r.Primary, r.Force)
	default:
		err = h.Backend.DeletePeerNIDs(ctx, r.Primary, r.NIDs)
	}
	switch {
	case err == nil:
		return nil
	case whole && errors.Is(err, discovery.ErrBusy):
		return peerFault("failed to del primary peer", err)
	}
	return peerFault("failed to del peer", err)
}

// checkDeletion looks whether there is all that is to be deleted.
func (h *handlers) checkDeletion(r *PeerDeletion) error {
	refuse := func(nid lnet.NID, err error) error {
		return &discovery.PeerError{Op: "delete", Peer: r.Primary, NID: nid, Err: err}
	}
	p, ok := h.Backend.Peer(r.Primary)
	switch {
	case !ok:
		return refuse(r.Primary, discovery.ErrNotFound)
	case p.Primary != r.Primary:
		return refuse(r.Primary, discovery.ErrNotPrimary)
	}
	for _, nid := range r.NIDs {
		if !slices.ContainsFunc(p.NIs, func(i PeerNI) bool { return i.NID == nid }) {
			return refuse(nid, discovery.ErrNotFound)
		}
	}
	return nil
}

func checkPeerNIDs(primary lnet.NID, others []lnet.NID) *Fault {
	switch {
	case primary.IsZero():
		return invalidRequest("missing primary NID", nil)
	case len(others) > PeerNIDsMax:
		return &Fault{
			Code: CodeRequestInvalid, Errno: -int(syscall.E2BIG), Text: "specifies more NIDs than allowed",
			Remedy: "name at most " + strconv.Itoa(PeerNIDsMax) + " NIDs at once",
		}
	case slices.ContainsFunc(others, lnet.NID.IsZero):
		return invalidRequest("a NID is empty", nil)
	}
	return nil
}

// peerFault is a refused change of a peer: text says what was refused, the
// error why, and the remedy follows from that.
func peerFault(text string, err error) *Fault {
	words := make([]wording, len(peerRemedies))
	for k, w := range peerRemedies {
		w.text = text
		words[k] = w
	}
	return worded(text, CodePeerRefused, err, words...)
}

var peerRemedies = []wording{
	{err: discovery.ErrNotFound, code: CodePeerUnknown, remedy: "see the peers and their NIDs with: lnetdctl peer show"},
	{err: discovery.ErrNotPrimary, code: CodePeerRefused, remedy: "see which NID is the primary one with: lnetdctl peer show --nid NID"},
	{err: discovery.ErrExists, code: CodePeerRefused, remedy: "see whose the NID is with: lnetdctl peer show --nid NID"},
	{err: discovery.ErrOtherPeer, code: CodePeerRefused, remedy: "see whose the NID is with: lnetdctl peer show --nid NID"},
	{err: discovery.ErrLocked, code: CodePeerRefused, remedy: "delete the peer that has the NID first, with --force"},
	{err: discovery.ErrPermission, code: CodePeerRefused, remedy: "delete the peer first, and add it as it should be; one with a locked primary NID with --force"},
	{err: discovery.ErrBusy, code: CodePeerRefused, remedy: "delete the routes through this gateway first; see them with: lnetdctl route show"},
	{err: discovery.ErrNotUnique, code: CodePeerRefused, remedy: "a peer that is not Multi-Rail has one NID on each net"},
	{err: discovery.ErrInvalid, code: CodePeerRefused, remedy: "0@lo and wildcards are no NIDs of peers"},
}
