package job

import (
	"errors"
	"fmt"

	"github.com/lnetd/lnetd/lnd/mpilnd"
	"github.com/lnetd/lnetd/lnet"
)

// Member is a process of the job.
type Member struct {
	Rank  int
	NID   lnet.NID
	PID   lnet.PID // lnet.PIDLustre for a proxy, otherwise the application's
	Proxy bool
	Name  string // of its host
}

// Table has all processes of a job. It is the same in each of them, and does not change.
type Table struct {
	members []Member // by rank
	ranks   map[lnet.NID]int
}

// Members returns the processes in the order of their ranks. The caller must not change them.
func (t *Table) Members() []Member { return t.members }

// Find implements mpilnd.Peers (MPI-14, MPI-15).
func (t *Table) Find(nid lnet.NID) (mpilnd.Place, bool) {
	rank, ok := t.ranks[nid]
	return mpilnd.Place{Rank: rank}, ok
}

// Process implements mpilnd.Peers.
func (t *Table) Process(at mpilnd.Place) (lnet.ProcessID, bool) {
	if at.Comm != 0 || at.Rank < 0 || at.Rank >= len(t.members) {
		return lnet.ProcessID{}, false
	}
	m := &t.members[at.Rank]
	return lnet.ProcessID{NID: m.NID, PID: m.PID}, true
}

// roster is what the processes have said at the start, by rank.
type roster []record

// readRoster decodes the records of all processes, and checks that they fit together. All processes get the same
// error.
func readRoster(b []byte) (roster, error) {
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
		case r.role == client && rank>>r.rankBits != 0:
			return nil, fmt.Errorf("rank %d does not fit into %d bits: set larger rank bits", rank, r.rankBits)
		case r.role == proxy && found:
			return nil, fmt.Errorf("the proxies of ranks %d and %d serve the same NI %s", other, rank, r.nid)
		case r.role == proxy:
			seen[r.nid] = rank
		}
	}
	if len(all.clients()) == 0 {
		return nil, errors.New("all processes are proxies: start them together with an application")
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
func (all roster) table(pid lnet.PID) *Table {
	t := &Table{ranks: make(map[lnet.NID]int, len(all))}
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
