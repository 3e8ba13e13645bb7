package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/diagnosis"
	"github.com/lnetd/lnetd/internal/lnetd/doctor"
	"github.com/lnetd/lnetd/internal/lnetd/topology"
	"github.com/lnetd/lnetd/lnet"
)

func (p *program) statusCommand() *cobra.Command {
	return leaf(manual{
		use:   "status",
		short: "print on one screen what is up, what is not, and what to do",
		long: `Prints lnetd with its version and uptime, the NIs with their status, since when they have
it and their health, the numbers of peers, routes and programs, and the worst findings of
"doctor" in short, except those for which "doctor" asks other hosts. The exit status is as
that of "doctor".

If lnetd is not running, the command says what would prevent a start.`,
		example: `lnetdctl status
lnetdctl status --json`,
		exits: doctorExits,
	}, func(ctx context.Context) error { return p.status(ctx, time.Now()) })
}

// status prints the state of the node as of the time now.
func (p *program) status(ctx context.Context, now time.Time) error {
	c := p.client()
	defer c.Close()
	facts, err := (&doctor.Doctor{Client: c}).Collect(ctx, lnet.NID{})
	if err != nil {
		return p.refused(doctorErrors, err)
	}
	s := summarize(facts)
	if p.json {
		err = p.printJSON(s)
	} else {
		_, err = fmt.Fprint(p.stdout, s.text(now))
	}
	return cmp.Or(err, severityStatus(s.Findings))
}

// summary is what "status --json" prints.
type summary struct {
	// Severity is that of the worst finding, or "ok" if there are none.
	Severity string `json:"severity"`
	// Daemon is nil if lnetd does not answer. The members after it are empty then.
	Daemon *api.Version `json:"daemon"`
	// LNetDown reports whether LNet is not configured.
	LNetDown bool            `json:"lnet_down"`
	NIs      []niSummary     `json:"nis"`
	Waiting  []api.WaitingNI `json:"waiting"`
	Peers    peerSummary     `json:"peers"`
	Routes   routeSummary    `json:"routes"`
	// Routing reports whether the node is a router.
	Routing  bool                `json:"routing"`
	Programs programSummary      `json:"programs"`
	Findings []diagnosis.Finding `json:"findings"`
}

// niSummary is an NI other than 0@lo.
type niSummary struct {
	NID       lnet.NID  `json:"nid"`
	Status    string    `json:"status"`
	Reason    string    `json:"reason,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	Health    int       `json:"health"`
	Interface string    `json:"interface,omitempty"`
}

// peerSummary counts peers. Each is counted once below Total: by the state that "topology" and the status page show, as
// one that has never answered a ping, or as one that is not used yet.
type peerSummary struct {
	Total   int `json:"total"`
	Up      int `json:"up"`
	Unused  int `json:"not_used"`
	Partly  int `json:"partly_up"`
	Down    int `json:"down"`
	Unknown int `json:"never_answered"`
}

// routeSummary counts routes, and names those that are down.
type routeSummary struct {
	Total int         `json:"total"`
	Up    int         `json:"up"`
	Down  []api.Route `json:"down"`
}

// programSummary counts processes that use lnetd. Unserved is the number of NIs that no proxy serves.
type programSummary struct {
	Clients  int `json:"clients"`
	TMs      int `json:"tms"`
	Proxies  int `json:"proxies"`
	Unserved int `json:"unserved_nis"`
}

// summarize returns the state of the node from facts about it.
func summarize(f *diagnosis.Facts) *summary {
	s := &summary{NIs: []niSummary{}, Waiting: []api.WaitingNI{}, Routes: routeSummary{Down: []api.Route{}}, Findings: diagnosis.Examine(f)}
	s.Severity = cmp.Or(string(diagnosis.Worst(s.Findings)), "ok")
	n := f.Node
	if n == nil {
		return s
	}
	s.Daemon, s.LNetDown = &n.Version, n.Down
	for k := range n.Nets.Nets {
		for i := range n.Nets.Nets[k].NIs {
			if ni := &n.Nets.Nets[k].NIs[i]; !ni.NID.IsLoopback() {
				s.NIs = append(s.NIs, niSummary{ni.NID, ni.Status, ni.Reason, ni.Since, ni.Health.Value, strings.Join(ni.Interfaces, ",")})
			}
		}
	}
	s.Waiting = append(s.Waiting, n.Nets.Waiting...)
	s.Peers.Total = len(n.Peers)
	states := topology.New(n.Nets, n.Routes, n.Routing, 0)
	for k := range n.Peers {
		s.Peers.count(&n.Peers[k], states.Add(&n.Peers[k]))
	}
	s.Routes.Total, s.Routing = len(n.Routes), n.Routing.State == api.RoutingEnabled
	for _, r := range n.Routes {
		if !r.Up {
			s.Routes.Down = append(s.Routes.Down, r)
		}
	}
	s.Routes.Up = s.Routes.Total - len(s.Routes.Down)
	s.Programs = programSummary{Clients: len(n.Clients.Clients), Proxies: len(n.Clients.Proxies), Unserved: len(n.Clients.Unserved)}
	for k := range n.Clients.Clients {
		s.Programs.TMs += len(n.Clients.Clients[k].TMs)
	}
	return s
}

func (s *peerSummary) count(p *api.Peer, state topology.State) {
	switch {
	case p.Unanswered:
		s.Unknown++
	case state == topology.Degraded:
		s.Partly++
	case state == topology.Down:
		s.Down++
	case p.Unused:
		s.Unused++
	default:
		s.Up++
	}
}

// Limits of what fits on one screen.
const (
	statusNIs      = 12
	statusFindings = 5
)

// text returns the summary for a terminal.
func (s *summary) text(now time.Time) string {
	var b strings.Builder
	if v := s.Daemon; v != nil {
		fmt.Fprintf(&b, "lnetd %s, pid %d, up %s since %s\n", v.Version, v.PID, roughly(time.Duration(v.Uptime*float64(time.Second))), clock(v.Started))
		if s.LNetDown {
			b.WriteString("LNet is not configured\n")
		} else {
			s.nodeText(&b, now)
		}
		s.programsText(&b)
		b.WriteString("\n")
	}
	s.findingsText(&b)
	return b.String()
}

// nodeText writes the NIs, peers and routes.
func (s *summary) nodeText(b *strings.Builder, now time.Time) {
	b.WriteString("\n")
	lines := table{{"NI", "status", "health", "since", "", "interface"}}
	nis := slices.Clone(s.NIs)
	slices.SortStableFunc(nis, func(a, b niSummary) int { return cmp.Compare(rankOf(a.Status), rankOf(b.Status)) })
	for _, n := range nis[:min(len(nis), statusNIs)] {
		since, ago := "-", ""
		if !n.Since.IsZero() {
			since, ago = clock(n.Since), roughly(now.Sub(n.Since))
		}
		line := []string{n.NID.String(), n.Status, strconv.Itoa(n.Health), since, ago, orDash(n.Interface)}
		if n.Reason != "" {
			line[len(line)-1] += ": " + n.Reason
		}
		lines = append(lines, line)
	}
	lines.write(b, "")
	if more := len(nis) - statusNIs; more > 0 {
		fmt.Fprintf(b, "and %d more\n", more)
	}
	for k := range s.Waiting {
		if k == statusNIs {
			fmt.Fprintf(b, "and %d more that wait\n", len(s.Waiting)-k)
			break
		}
		b.WriteString(printableText(waitingText(&s.Waiting[k])) + "\n")
	}
	fmt.Fprintf(b, "\npeers:    %s\n", counts(s.Peers.Total,
		part{s.Peers.Up, "up"}, part{s.Peers.Unused, "not used yet"}, part{s.Peers.Partly, "partly up"}, part{s.Peers.Down, "down"}, part{s.Peers.Unknown, "never answered"}))
	fmt.Fprintf(b, "routes:   %s", counts(s.Routes.Total, part{s.Routes.Up, "up"}, part{len(s.Routes.Down), "down"}))
	for k, r := range s.Routes.Down {
		if k == statusFindings {
			b.WriteString(", ...")
			break
		}
		fmt.Fprintf(b, ", %s through %s", r.Net, r.Gateway)
	}
	b.WriteString("\n")
	if s.Routing {
		b.WriteString("routing:  enabled\n")
	}
}

func (s *summary) programsText(b *strings.Builder) {
	fmt.Fprintf(b, "programs: %d with %d transfer machines", s.Programs.Clients, s.Programs.TMs)
	if s.Programs.Proxies > 0 || s.Programs.Unserved > 0 {
		fmt.Fprintf(b, ", %d proxies, %d NIs without a proxy", s.Programs.Proxies, s.Programs.Unserved)
	}
	b.WriteString("\n")
}

// findingsText writes the worst findings.
func (s *summary) findingsText(b *strings.Builder) {
	if len(s.Findings) == 0 {
		b.WriteString("nothing is wrong\n")
		return
	}
	shown := s.Findings[:min(len(s.Findings), statusFindings)]
	for k := range shown {
		f := &shown[k]
		fmt.Fprintf(b, "%s %s %s: %s: %s\n    remedy: %s\n", f.Severity, f.Code, f.Title, oneLine(f.Subject), oneLine(f.Evidence), oneLine(f.Remedy))
	}
	if more := len(s.Findings) - len(shown); more > 0 {
		fmt.Fprintf(b, "and %d more: lnetdctl doctor\n", more)
	}
}

// rankOf returns a number by which NIs that are not up come first.
func rankOf(status string) int {
	if status == "up" {
		return 1
	}
	return 0
}

// part is a number of objects with a state.
type part struct {
	n     int
	state string
}

// counts returns a total and the parts of it that are not 0, such as "12: 10 up, 2 down".
func counts(total int, parts ...part) string {
	var texts []string
	for _, p := range parts {
		if p.n > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", p.n, p.state))
		}
	}
	if len(texts) == 0 {
		return strconv.Itoa(total)
	}
	return fmt.Sprintf("%d: %s", total, strings.Join(texts, ", "))
}

// clock formats a time in the local time zone.
func clock(t time.Time) string { return t.Local().Format(time.DateTime) }

// roughly formats a duration with its two largest units, such as "3d 4h".
func roughly(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(d, 0); {
	case d >= day:
		return fmt.Sprintf("%dd %dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh %dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm %ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}
