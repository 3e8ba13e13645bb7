package console

import (
	"net/netip"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
)

// second adds another NI to a player, on a separate wire.
func (p *player) second(address string) *simlnd.Device {
	p.t.Helper()
	d := p.host.AddDevice("eth1", address)
	nid := lnet.NIDFromIP(lnet.MakeNet(lnet.TypeTCP, 1), netip.MustParseAddr(address))
	if _, err := p.node.AddNI(p.t.Context(), p.driver, lnd.Config{Net: nid.Net(), NID: nid}); err != nil {
		p.t.Fatal(err)
	}
	return d
}

// Given a console and a node with two wires between them, when one is cut in the middle, so that messages
// on it are stuck, then queries, for counters or for a batch, are answered nevertheless.
func TestQuestionsGetRoundACut(t *testing.T) {
	for name, question := range map[string]func(s *stage) (Result, error){
		"stat": func(s *stage) (Result, error) {
			v, err := s.Stat(s.ctx, key, []string{"g"}, 5*time.Second)
			if err != nil {
				return Result{}, err
			}
			return Result{Unanswered: v.Targets[0].Failed}, nil
		},
		"ping": func(s *stage) (Result, error) { return s.Ping(s.ctx, key, Target{Group: "g"}, 5*time.Second) },
		"query": func(s *stage) (Result, error) {
			q, err := s.Query(s.ctx, key, "batch", QueryOptions{Timeout: 5 * time.Second})
			return Result{Unanswered: q.Failed}, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, 1, func(t *testing.T, s *stage) {
				near, far := s.master.second("10.1.0.100"), s.nodes[0].second("10.1.0.1")
				s.session([2]string{"g", "1"})
				test := pingTest()
				test.From, test.To = "g", "g"
				s.add(test)
				for range 4 { // both wires are in use
					if _, err := question(s); err != nil {
						t.Fatal(err)
					}
				}
				s.Partition(near, far, simlnd.Both)
				for k := range 6 {
					r, err := question(s)
					if err != nil || !r.OK() {
						t.Errorf("question %d: %+v, %v", k, r, err)
					}
				}
				s.Heal(near, far, simlnd.Both)
			})
		})
	}
}

// Requests that change something are sent only once.
func TestOrdersAreGivenOnce(t *testing.T) {
	for _, q := range []message.Request{
		&message.MakeSessionRequest{}, &message.RemoveSessionRequest{}, &message.TestRequest{},
		&message.BatchRequest{Op: message.BatchRun}, &message.BatchRequest{Op: message.BatchStop},
	} {
		if (&nodeRequest{request: q}).repeatable() {
			t.Errorf("%T", q)
		}
	}
}
