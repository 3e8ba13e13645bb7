package selection

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lnetd/lnetd/lnet"
)

// Explanation is the choice of a path with its reasons.
type Explanation struct {
	// Case describes which of the cases of selection 4 applies.
	Case string
	// Steps are the steps of the choice, in order. A step without candidates is a remark.
	Steps []Step
	// Decision is the chosen path. It is valid if Err is nil.
	Decision Decision
	Err      error
}

// Step is one step of a choice.
type Step struct {
	// What names the kind of object that was chosen, such as "net", "NI", "peer NI", "remote
	// net" or "route to o2ib".
	What string
	// Candidates are the objects that could have been chosen, best first. The first one was
	// chosen.
	Candidates []Candidate
	// Excluded are the objects that could not be chosen, with the reasons.
	Excluded []Exclusion
}

// Candidate is an object that could have been chosen.
type Candidate struct {
	Name string
	// By is the criterion because of which the preceding candidate is better.
	By Criterion
	// Figures are the values of the candidate that were compared, in order of precedence.
	Figures []Figure
}

// Figure is the value of a criterion. Conditions have the values 0 and 1, and NoPriority
// is shown as -1.
type Figure struct {
	Criterion Criterion
	Value     int64
}

// Exclusion is an object that could not be chosen, with the reason.
type Exclusion struct {
	Name, Why string
}

// Explain chooses a path like Choose, and also returns the reasons. It changes nothing.
func (v *View) Explain(r *Request) Explanation {
	t := &trace{}
	c := chooser{v: v, r: r, t: t}
	d, err := c.choose()
	return Explanation{Case: t.handling, Steps: t.steps, Decision: d, Err: err}
}

var handlingNames = [...]string{
	loopback:     "loopback",
	sourceLocal:  "given source, local destination",
	sourceRemote: "given source, remote destination",
	exactLocal:   "exactly this NID, on a local net",
	exactRemote:  "exactly this NID, behind a router",
	anyOfPeer:    "any NID of a multi-rail peer",
}

// trace records the candidates of a choice. A nil trace records nothing.
type trace struct {
	handling string
	steps    []Step
	excluded []Exclusion

	nets    []netCriteria
	nis     []niCriteria
	peerNIs []peerNICriteria
	routes  []routeCriteria
}

func (t *trace) enter(h routingCase) {
	if t != nil {
		t.handling = handlingNames[h]
	}
}

func (t *trace) notePreferredNI(i *NI) {
	if t != nil {
		t.steps = append(t.steps, Step{What: "NI " + i.NID.String() + " is the preferred gateway"})
	}
}

func (t *trace) noteGivenHop(hop *PeerNI) {
	if t != nil {
		t.steps = append(t.steps, Step{What: "back through gateway " + hop.NID.String()})
	}
}

func (t *trace) excludeRoute(r *Route, why string) {
	if t != nil {
		t.excluded = append(t.excluded, Exclusion{Name: r.Gateway.NID.String(), Why: why})
	}
}

// end adds a step with the ranked candidates, and with the objects that were excluded
// since the last step.
func (t *trace) end(what string, ranked []Candidate) {
	if len(ranked)+len(t.excluded) > 0 {
		t.steps = append(t.steps, Step{What: what, Candidates: ranked, Excluded: t.excluded})
	}
	t.excluded = nil
}

// endNets adds the step in which a net of the peer p was chosen. Nets of p that were not
// candidates are excluded for the reason why.
func (t *trace) endNets(what string, p *Peer, why string) {
	for _, n := range p.Nets {
		if !slices.ContainsFunc(t.nets, func(f netCriteria) bool { return f.peer == n }) {
			t.excluded = append(t.excluded, Exclusion{Name: n.ID.String(), Why: why})
		}
	}
	t.end(what, rank(t.nets, (*netCriteria).better, (*netCriteria).describe))
	t.nets = nil
}

func (t *trace) endNIs() {
	t.end("NI", rank(t.nis, (*niCriteria).better, (*niCriteria).describe))
	t.nis = nil
}

func (t *trace) endPeerNIs(what string) {
	// The routes excluded so far belong to a later step.
	excluded := t.excluded
	t.excluded = nil
	t.end(what, rank(t.peerNIs, (*peerNICriteria).better, (*peerNICriteria).describe))
	t.peerNIs, t.excluded = nil, excluded
}

func (t *trace) endRoutes(to lnet.Net) {
	t.end("route to "+to.String(), rank(t.routes, (*routeCriteria).better, (*routeCriteria).describe))
	t.routes = nil
}

// rank sorts the candidates: the first is the one that was chosen, the second the one that
// would be chosen without the first, and so on.
func rank[F any](seen []F, better func(f, g *F) (bool, Criterion), describe func(*F) Candidate) []Candidate {
	order := make([]*F, 0, len(seen))
	for k := range seen {
		at := 0
		for ; at < len(order); at++ {
			if wins, _ := better(&seen[k], order[at]); wins {
				break
			}
		}
		order = append(order, nil)
		copy(order[at+1:], order[at:])
		order[at] = &seen[k]
	}
	ranked := make([]Candidate, len(order))
	for k, f := range order {
		ranked[k] = describe(f)
		if k > 0 {
			_, ranked[k].By = better(f, order[k-1])
		}
	}
	return ranked
}

func (f *netCriteria) describe() Candidate {
	c := Candidate{Name: f.peer.ID.String(), Figures: []Figure{
		{ByPeerNetTrouble, int64(f.trouble)}, {ByPeerNetHealth, int64(f.peerHealth)}, {ByPeerNetPriority, priorityValue(f.peerPriority)},
	}}
	if f.local != nil {
		c.Figures = append(c.Figures, Figure{ByNetHealth, int64(f.localHealth)}, Figure{ByNetPriority, priorityValue(f.localPriority)})
	}
	c.Figures = append(c.Figures, Figure{ByPeerNetTurn, int64(f.peerTurn)})
	if f.local != nil {
		c.Figures = append(c.Figures, Figure{ByNetTurn, int64(f.localTurn)})
	}
	return c
}

func (f *niCriteria) describe() Candidate {
	return Candidate{Name: f.ni.NID.String(), Figures: []Figure{
		{ByFatal, flag(f.fatal)}, {ByNITrouble, int64(f.trouble)}, {ByNIHealth, int64(f.health)}, {ByNIPriority, priorityValue(f.priority)},
		{ByAffinity, int64(f.affinity)}, {ByDistance, int64(f.distance)}, {ByNICredits, f.credits}, {ByNITurn, int64(f.turn)},
	}}
}

func (f *peerNICriteria) describe() Candidate {
	return Candidate{Name: f.ni.NID.String(), Figures: []Figure{
		{ByPeerNITrouble, int64(f.trouble)}, {ByPeerNIHealth, int64(f.health)}, {ByPeerNIPriority, priorityValue(f.priority)}, {ByPreference, flag(f.preferred)},
		{ByPeerNICredits, f.credits}, {ByPeerNITurn, int64(f.turn)},
	}}
}

func (f *routeCriteria) describe() Candidate {
	return Candidate{Name: f.gateway.NID.String(), Figures: []Figure{
		{ByGatewayTrouble, int64(f.trouble)}, {ByPreferredRouter, flag(f.preferred)}, {ByRoutePriority, int64(f.priority)}, {ByHops, int64(f.hops)},
		{ByGatewayHealth, int64(f.health)}, {ByGatewayQueue, f.queued}, {ByGatewayCredits, f.credits}, {ByRouteTurn, int64(f.turn)},
	}}
}

// priorityValue returns a priority in the form in which tools show it, with -1 for
// NoPriority.
func priorityValue(priority uint32) int64 {
	if priority == NoPriority {
		return -1
	}
	return int64(priority)
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// Value returns the candidate's value of a criterion, or 0 if the criterion was not
// compared.
func (c *Candidate) Value(by Criterion) int64 {
	for _, f := range c.Figures {
		if f.Criterion == by {
			return f.Value
		}
	}
	return 0
}

// String returns the value in words.
func (f Figure) String() string {
	switch f.Criterion {
	case ByFatal:
		return [...]string{"up", "down"}[f.Value&1]
	case ByPeerNetTrouble, ByNITrouble, ByPeerNITrouble, ByGatewayTrouble:
		return Trouble(f.Value).String()
	case ByPreference, ByPreferredRouter:
		return [...]string{"no", "yes"}[f.Value&1]
	case ByPeerNetPriority, ByNetPriority, ByNIPriority, ByPeerNIPriority:
		if f.Value < 0 {
			return "none"
		}
	}
	return strconv.FormatInt(f.Value, 10)
}

// String returns the explanation as text, with one line per candidate:
//
//	any NID of a multi-rail peer
//	NI
//	  1. 10.0.0.1@tcp
//	  2. 10.0.0.2@tcp      NI health 900, 10.0.0.1@tcp has 1000
//	path: 10.0.0.1@tcp to 10.0.0.11@tcp
func (e Explanation) String() string {
	var b strings.Builder
	if e.Case != "" {
		fmt.Fprintln(&b, e.Case)
	}
	for i := range e.Steps {
		e.Steps[i].write(&b)
	}
	d := &e.Decision
	switch {
	case e.Err != nil:
		fmt.Fprintf(&b, "no path: %v\n", e.Err)
	case d.Loopback():
		fmt.Fprintln(&b, "path: 0@lo")
	case d.Routed():
		fmt.Fprintf(&b, "path: %s to %s through %s\n", d.NI.NID, d.Final.NID, d.Next.NID)
	default:
		fmt.Fprintf(&b, "path: %s to %s\n", d.NI.NID, d.Final.NID)
	}
	return b.String()
}

func (s *Step) write(b *strings.Builder) {
	fmt.Fprintln(b, s.What)
	for k := range s.Candidates {
		c := &s.Candidates[k]
		switch c.By {
		case ByNothing:
			fmt.Fprintf(b, "  %d. %s\n", k+1, c.Name)
		case ByOrder:
			fmt.Fprintf(b, "  %d. %-24s equal to %s\n", k+1, c.Name, s.Candidates[k-1].Name)
		default:
			above := &s.Candidates[k-1]
			fmt.Fprintf(b, "  %d. %-24s %s %s, %s has %s\n", k+1, c.Name, c.By,
				Figure{c.By, c.Value(c.By)}, above.Name, Figure{c.By, above.Value(c.By)})
		}
	}
	for _, x := range s.Excluded {
		fmt.Fprintf(b, "  -  %-24s %s\n", x.Name, x.Why)
	}
}
