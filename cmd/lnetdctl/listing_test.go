package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/testing/controltest"
	"github.com/lnetd/lnetd/lnet"
)

// A document that is printed item by item equals one that is printed as a whole.
func TestListingsAreOneDocument(t *testing.T) {
	all := cannedPeer(t, "peerA").PeerList
	for n := range len(all) + 1 {
		socket := serve(t, &controltest.Daemon{PeerList: all[:n]})
		for _, level := range []int64{0, 1, 2, 3, 4} {
			list := sequence{}
			for k := range all[:n] {
				list = append(list, peerDocument(&all[k], level))
			}
			var want bytes.Buffer
			if err := wide.write(&want, section("peer", list)); err != nil {
				t.Fatal(err)
			}
			got := runProgram(program{socket: socket}, "peer", "show", "-v", string('0'+rune(level)))
			if diff := cmp.Diff(ran{stdout: want.String()}, got, cmp.AllowUnexported(ran{})); diff != "" {
				t.Errorf("%d peers, level %d:\n%s", n, level, diff)
			}
		}
		for _, args := range [][]string{{"peer", "show", "--json"}, {"peer", "list", "--json"}} {
			var want bytes.Buffer
			if err := (&program{stdout: &want}).printJSON(api.Peers{Peers: append([]api.Peer{}, all[:n]...)}); err != nil {
				t.Fatal(err)
			}
			got := runProgram(program{socket: socket}, args...)
			if diff := cmp.Diff(ran{stdout: want.String()}, got, cmp.AllowUnexported(ran{})); diff != "" {
				t.Errorf("%d peers, %v:\n%s", n, args, diff)
			}
		}
	}
}

// slowDaemon returns n peers, and then waits until the first one has been read.
type slowDaemon struct {
	controltest.Daemon
	peers int
	read  chan struct{}
}

func (d *slowDaemon) Peers(ctx context.Context, after discovery.PeerID) iter.Seq2[api.Peer, error] {
	return func(yield func(api.Peer, error) bool) {
		for k := int(after) + 1; k <= d.peers; k++ {
			if k == d.peers {
				select {
				case <-d.read:
				case <-ctx.Done():
					yield(api.Peer{}, ctx.Err())
					return
				}
			}
			nid := lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, 0), uint32(k))
			if !yield(api.Peer{ID: uint64(k), Primary: nid, NIs: []api.PeerNI{{NID: nid, State: "NA"}}}, nil) {
				return
			}
		}
	}
}

// The beginning of a long list is printed before the rest has arrived.
func TestListingIsPrintedAsItComes(t *testing.T) {
	d := &slowDaemon{peers: 60_000, read: make(chan struct{})}
	r, w := io.Pipe()
	p := program{name: "lnetdctl", stdout: w, stderr: io.Discard, socket: serve(t, d)}
	ended := make(chan int, 1)
	go func() {
		status := p.run([]string{"peer", "show"})
		_ = w.Close()
		ended <- status
	}()
	first := make([]byte, listingPage)
	if _, err := io.ReadFull(r, first); err != nil {
		t.Fatal(err)
	}
	close(d.read)
	rest, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(first)+string(rest), "primary nid:"); n != d.peers || <-ended != 0 {
		t.Errorf("%d peers are printed", n)
	}
}

// Indentation item by item equals that of encoding/json.
func TestItemsAreIndentedAsEncodingJSONDoes(t *testing.T) {
	for _, v := range []any{
		cannedPeer(t, "peerA").PeerList[0], nil, 7, "a \"quoted\\\" [text], {of: all}", []int{}, map[string]int{}, struct{}{},
		[]any{[]any{}, map[string]any{"a": []any{1, "}", map[string]any{}}, "b,": nil}, -1.5e30, true},
	} {
		want, err := json.MarshalIndent(v, "    ", "  ")
		if err != nil {
			t.Fatal(err)
		}
		compact, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		indent(&got, compact, 2)
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Error(diff)
		}
	}
}

// 65,536 peers with two NIDs each, printed for programs.
func BenchmarkPeersForPrograms(b *testing.B) {
	peer := cannedPeer(b, "peerA").PeerList[0]
	for len(peer.NIs) < 2 {
		peer.NIs = append(peer.NIs, peer.NIs[0])
	}
	peer.NIs = peer.NIs[:2]
	for b.Loop() {
		o := jsonObject{out: io.Discard}
		err := jsonList(&o, "peers", func(yield func(*api.Peer, error) bool) {
			for range 65536 {
				if !yield(&peer, nil) {
					return
				}
			}
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
