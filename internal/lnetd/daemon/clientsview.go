package daemon

import (
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/clients"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/transport"
)

func (b *backend) Clients() api.Clients {
	all := api.Clients{Socket: b.guests.path()}
	if s := b.guests.server.Load(); s != nil {
		for _, i := range s.Clients() {
			all.Clients = append(all.Clients, controlClient(&i))
		}
	}
	b.addProxies(&all)
	return all
}

func (b *backend) DropClient(id uint64) error {
	s := b.guests.server.Load()
	if s == nil {
		return fmt.Errorf("hosting of programs (transport) is not enabled: %w", syscall.ENOENT)
	}
	return s.Drop(id)
}

// controlClient converts the data of a client to the form of the control interface.
func controlClient(i *clients.Info) api.ClientInfo {
	c := api.ClientInfo{
		ID: i.ID, PID: i.PID, UID: i.UID, GID: i.GID, Program: i.Program, Cgroup: i.Cgroup, Rule: i.Rule,
		Since: i.Since, Ending: i.Ending, Buffers: i.Buffers, Areas: i.Areas, Bytes: i.Bytes, Requests: i.Requests,
		TMs: []api.ClientTM{},
	}
	for k := range i.TMs {
		t := &i.TMs[k]
		tm := api.ClientTM{
			NID: t.Address.NID, PID: uint32(t.Address.PID), Portal: t.Address.Portal, ID: t.Address.TMID,
			Entries: t.Entries, Waiting: t.Waiting, Kept: t.Kept, Overflowed: t.Overflowed, Rejected: t.Rejected,
			Submissions: t.Submissions, Completions: t.Completions,
			Polls: t.Polls, Found: t.Found, Waits: t.Waits, WordWaits: t.WordWaits, BellReads: t.BellReads, BellWrites: t.BellWrites,
		}
		for q, f := range t.Queues {
			tm.Queues = append(tm.Queues, api.ClientQueue{
				Queue: transport.QueueType(q).String(), Depth: f.Depth, Completed: f.Completed, Failed: f.Failed, Bytes: f.Bytes,
				Added: f.Added, Cancelled: f.Cancelled, MaxBytes: f.MaxBytes, Seconds: f.InQueue,
			})
		}
		c.TMs = append(c.TMs, tm)
	}
	return c
}
