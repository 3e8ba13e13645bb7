package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

func (h *handlers) peers(ctx context.Context, q query) (list[api.Peers, api.Peer], *api.Fault) {
	nid, fault := q.nid("nid")
	if fault != nil {
		return list[api.Peers, api.Peer]{}, fault
	}
	detail, detailed, fault := q.number("detail")
	if fault != nil {
		return list[api.Peers, api.Peer]{}, fault
	}
	page, paged := q["page"]
	switch {
	case !nid.IsZero() && paged || detailed && !paged:
		return list[api.Peers, api.Peer]{}, invalidRequest("page cannot be combined with a NID, and detail needs page", nil)
	case !nid.IsZero():
		return h.peer(nid)
	case !paged:
		return list[api.Peers, api.Peer]{streams: true, items: h.Backend.Peers(ctx, 0)}, nil
	case !detailed:
		detail = api.PeersDetail
	}
	after, fault := h.parsePage(page)
	if fault != nil {
		return list[api.Peers, api.Peer]{}, fault
	}
	c := newCompact(int(min(detail, api.PeersDetail)))
	return list[api.Peers, api.Peer]{
		streams: true, items: h.Backend.Peers(ctx, after),
		encode: func(b []byte, p *api.Peer) ([]byte, error) { return c.append(b, p) },
		after:  func(last *api.Peer) string { return h.pageAfter(discovery.PeerID(last.ID)) },
	}, nil
}

func (h *handlers) peer(nid lnet.NID) (list[api.Peers, api.Peer], *api.Fault) {
	p, ok := h.Backend.Peer(nid)
	if !ok {
		return list[api.Peers, api.Peer]{}, &api.Fault{
			Code: api.CodePeerUnknown, Errno: -int(syscall.ENOENT), Text: "cannot find peer",
			Cause:  "no peer has the NID " + nid.String(),
			Remedy: "to list the peers, use: lnetdctl peer show",
		}
	}
	return listOf[api.Peers]([]api.Peer{p}, func(_ int, p *api.Peer) (api.Peer, bool) { return *p, true }), nil
}

// pageAfter returns the name of the page that begins after the peer with the given ID. The name is valid
// only until lnetd ends, because peers have other IDs after a restart.
func (h *handlers) pageAfter(id discovery.PeerID) string {
	return fmt.Sprintf("%d-%x", id, h.Backend.Version().Started.UnixNano())
}

// parsePage returns the ID of the peer after which a page begins. It returns a fault if this lnetd has not
// created the page's name.
func (h *handlers) parsePage(page string) (id discovery.PeerID, _ *api.Fault) {
	if page == api.FirstPage {
		return 0, nil
	}
	number, _, _ := strings.Cut(page, "-")
	n, err := strconv.ParseUint(number, 10, 64)
	id = discovery.PeerID(n)
	if err != nil || page != h.pageAfter(id) {
		return 0, &api.Fault{
			Code: api.CodeRequestInvalid, Errno: -int(syscall.EAGAIN), Text: "the page of peers does not exist",
			Cause:  "page " + strconv.Quote(page) + " was not created by this lnetd; it may have been restarted",
			Remedy: "start again with page " + api.FirstPage + " again",
		}
	}
	return id, nil
}

func (h *handlers) addPeer(ctx context.Context, r *api.PeerAddition) *api.Fault {
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

func (h *handlers) deletePeer(ctx context.Context, r *api.PeerDeletion) *api.Fault {
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

// checkDeletion returns an error if the peer or one of the NIDs that r asks to delete does not exist.
func (h *handlers) checkDeletion(r *api.PeerDeletion) error {
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
		if !slices.ContainsFunc(p.NIs, func(i api.PeerNI) bool { return i.NID == nid }) {
			return refuse(nid, discovery.ErrNotFound)
		}
	}
	return nil
}

func (h *handlers) setPeerState(ctx context.Context, r *api.PeerState) *api.Fault {
	if r.All != r.NID.IsZero() {
		return invalidRequest("either a NID or all is needed", nil)
	}
	if err := h.Backend.SetPeerState(ctx, r.NID, r.State); err != nil {
		return peerFault("cannot set the peer's state", err)
	}
	return nil
}

func checkPeerNIDs(primary lnet.NID, others []lnet.NID) *api.Fault {
	switch {
	case primary.IsZero():
		return invalidRequest("missing primary NID", nil)
	case len(others) > api.PeerNIDsMax:
		return &api.Fault{
			Code: api.CodeRequestInvalid, Errno: -int(syscall.E2BIG), Text: "specifies more NIDs than allowed",
			Remedy: "give at most " + strconv.Itoa(api.PeerNIDsMax) + " NIDs at once",
		}
	case slices.ContainsFunc(others, lnet.NID.IsZero):
		return invalidRequest("a NID is empty", nil)
	}
	return nil
}

// peerFault returns the fault of a rejected change of a peer. The text says what was rejected, the cause is
// err, and the remedy depends on err.
func peerFault(text string, err error) *api.Fault {
	words := make([]wording, len(peerRemedies))
	for k, w := range peerRemedies {
		w.text = text
		words[k] = w
	}
	return describedError(text, api.CodePeerRefused, err, words...)
}

var peerRemedies = []wording{
	{err: discovery.ErrNotFound, code: api.CodePeerUnknown, remedy: "to list the peers and their NIDs, use: lnetdctl peer show"},
	{err: discovery.ErrNotPrimary, code: api.CodePeerRefused, remedy: "to find the primary NID, use: lnetdctl peer show --nid NID"},
	{err: discovery.ErrExists, code: api.CodePeerRefused, remedy: "to find the peer that has the NID, use: lnetdctl peer show --nid NID"},
	{err: discovery.ErrOtherPeer, code: api.CodePeerRefused, remedy: "to find the peer that has the NID, use: lnetdctl peer show --nid NID"},
	{err: discovery.ErrLocked, code: api.CodePeerRefused, remedy: "delete the peer that has the NID first, with --force"},
	{err: discovery.ErrPermission, code: api.CodePeerRefused, remedy: "delete the peer first and add it again; use --force if its primary NID is locked"},
	{err: discovery.ErrBusy, code: api.CodePeerRefused, remedy: "delete the routes through this gateway first; to list them, use: lnetdctl route show"},
	{err: discovery.ErrNotUnique, code: api.CodePeerRefused, remedy: "a peer that is not Multi-Rail can have only one NID per net"},
	{err: discovery.ErrInvalid, code: api.CodePeerRefused, remedy: "0@lo, wildcards and NIDs of this node cannot be NIDs of peers"},
}
