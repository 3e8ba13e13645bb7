package netns

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/namespace"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/node"
)

// crowdEnv makes the test binary run as many nodes. Its value is their number.
const crowdEnv = "LNETD_NETNS_CROWD"

// member returns the address of a node of the crowd.
func member(k int) string { return fmt.Sprintf("10.214.%d.%d", k/250, k%250+1) }

// startCrowd starts nodes in one process on the host b, each with its own address, to which the other hosts of its first
// network have a route. It returns the NIDs. The nodes end with the test.
func (h *host) startCrowd(t *testing.T, size int, clients ...*host) (nids []string) {
	t.Helper()
	var batch strings.Builder
	for k := range size {
		fmt.Fprintf(&batch, "addr add %s/32 dev eth0\n", member(k))
		nids = append(nids, member(k)+"@tcp")
	}
	namespace.IP(t, "-n", h.name, "-batch", h.file(t, "addresses", batch.String()))
	for _, c := range clients {
		namespace.IP(t, "-n", c.name, "route", "add", "10.214.0.0/16", "via", h.addr(h.networks[0]))
	}
	h.startRole(t, crowdEnv, strconv.Itoa(size))
	return nids
}

// serveCrowd runs nodes until standard input ends.
func serveCrowd(size string) (err error) {
	n, err := strconv.Atoi(size)
	if err != nil {
		return err
	}
	ctx := context.Background()
	for k := range n {
		d, err := socklnd.New(socklnd.DefaultConfig())
		if err != nil {
			return err
		}
		one, err := node.Start(ctx, node.Config{}, d, member(k)+"@tcp")
		if err != nil {
			return fmt.Errorf("node %d: %w", k, err)
		}
		defer func() { err = errors.Join(err, one.Close(ctx), d.Close()) }()
	}
	return serveRole()
}

// crowdSize returns the number of healthy peers among which doctor finds nothing. With the race detector, 1,000 nodes take
// minutes to start on a busy machine.
func crowdSize() int {
	if testenv.Race {
		return 100
	}
	return 1000
}

// Given a node with 1,000 healthy peers, then doctor finds nothing.
func TestDoctorCrowd(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	nids := b.startCrowd(t, crowdSize(), a)
	d := a.startWith(t, &configuration{})
	begin := time.Now()
	d.Must(t, append([]string{"discover"}, nids...)...)
	t.Logf("discovered in %v", time.Since(begin).Round(time.Millisecond))
	if out := d.Must(t, "peer", "show"); strings.Count(out, "primary nid") != len(nids) {
		t.Errorf("%d peers", strings.Count(out, "primary nid"))
	}
	begin = time.Now()
	a.wantFindings(t, "a healthy crowd", nil)
	t.Logf("examined in %v", time.Since(begin).Round(time.Millisecond))
	a.wantFindings(t, "one of a healthy crowd", []string{nids[len(nids)/2]})
	d.Stop(t)
}
