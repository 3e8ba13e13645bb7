package job

import (
	"errors"
	"fmt"

	"github.com/lnetd/lnetd/lnd/mpilnd"
	"github.com/lnetd/lnetd/lnet"
)

// Member is a process of the job, or of one of two connected jobs. Rank is its index in Table.Members: the rank, or for
// proxies that are a separate job the rank there plus the number of clients.
type Member struct {
	Rank  int
	NID   lnet.NID
	PID   lnet.PID // lnet.PIDLustre for a proxy, otherwise the application's
	Proxy bool
	Name  string // of its host
}

// Table has all processes of a job, or of two connected jobs. It is the same in each of them, and does not change.
type Table struct {
	members []Member // by rank
	ranks   map[lnet.NID]int
	groups  []group // of the communicators
}

// group is the members that messages over a communicator are sent to. Their ranks there begin with 0.
type group struct{ first, size int }

// Members returns the processes in the order of their ranks. The caller must not change them.
func (t *Table) Members() []Member { return t.members }

// Find implements mpilnd.Peers (MPI-14, MPI-15).
func (t *Table) Find(nid lnet.NID) (mpilnd.Place, bool) {
	rank, ok := t.ranks[nid]
	if !ok {
		return mpilnd.Place{}, false
	}
	return t.place(rank), true
}

// place returns where a member is.
func (t *Table) place(member int) mpilnd.Place {
	for comm, g := range t.groups {
		if k := member - g.first; k >= 0 && k < g.size {
			return mpilnd.Place{Comm: comm, Rank: k}
		}
	}
	panic(fmt.Sprintf("job: member %d of %d", member, len(t.members)))
}

// Process implements mpilnd.Peers.
func (t *Table) Process(at mpilnd.Place) (lnet.ProcessID, bool) {
	if at.Comm < 0 || at.Comm >= len(t.groups) || at.Rank < 0 || at.Rank >= t.groups[at.Comm].size {
		return lnet.ProcessID{}, false
	}
	m := &t.members[t.groups[at.Comm].first+at.Rank]
	return lnet.ProcessID{NID: m.NID, PID: m.PID}, true
}

// roster is what the processes have said at the start, by rank.
type roster []record

// readRoster decodes the records of all processes, and checks that they fit together. All processes get the same
// error. own means that b has only the processes of this job.
func readRoster(b []byte, own bool) (roster, error) {
	all := make(roster, 0, len(b)/recordSize)
	seen := make(map[lnet.NID]int)
	for rank := range len(b) / recordSize {
		r, err := decode(b[rank*recordSize:])
		if err != nil {
			return nil, fmt.Errorf("record of rank %d: %w", rank, err)
		}
		all = append(all, r)
		first := &all[0]
		switch other, found := seen[r.nid]; {
		case r.net != first.net || r.rankBits != first.rankBits:
			return nil, fmt.Errorf("rank %d has the net %s and %d rank bits, rank 0 has %s and %d",
				rank, r.net, r.rankBits, first.net, first.rankBits)
		case r.apart != first.apart:
			return nil, fmt.Errorf("of the ranks 0 and %d only one connects to another job, or waits for one", rank)
		case r.role == client && rank>>r.rankBits != 0:
			return nil, fmt.Errorf("rank %d does not fit into %d bits: set larger rank bits", rank, r.rankBits)
		case r.role == proxy && found:
			return nil, fmt.Errorf("the proxies of ranks %d and %d serve the same NI %s", other, rank, r.nid)
		case r.role == proxy:
			seen[r.nid] = rank
		}
	}
	switch clients := len(all.clients()); {
	case clients == 0 && !all[0].apart:
		return nil, errors.New("all processes are proxies: start them together with an application, or let them wait for one")
	case all[0].apart && own && clients > 0 && clients < len(all):
		return nil, errors.New("clients and proxies are in one job, but it connects to another job, or waits for one")
	}
	return all, nil
}

// proxies returns the ranks of the proxies, and clients those of the clients.
func (all roster) proxies() []int { return all.ranks(proxy) }
func (all roster) clients() []int { return all.ranks(client) }

func (all roster) ranks(role int) []int {
	var ranks []int
	for rank := range all {
		if all[rank].role == role {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// table returns the table for an application with a PID.
func (all roster) table(pid lnet.PID, groups []group) *Table {
	t := &Table{ranks: make(map[lnet.NID]int, len(all)), groups: groups}
	for rank := range all {
		r := &all[rank]
		m := Member{Rank: rank, NID: r.nid, PID: lnet.PIDLustre, Proxy: r.role == proxy, Name: r.name}
		if !m.Proxy {
			m.NID, m.PID = clientNID(r.net, pid, rank, r.rankBits), pid
		}
		t.members = append(t.members, m)
		t.ranks[m.NID] = rank
	}
	return t
}
