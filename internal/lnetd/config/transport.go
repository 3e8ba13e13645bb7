package config

import (
	"strconv"
	"strings"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/clients"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
)

// Transport is the section "transport" in "lnetd". It configures whether lnetd hosts transfer machines
// for other processes, and for which processes.
type Transport struct {
	Enabled bool
	// Socket is the path that programs connect to. Empty means the default.
	Socket string
	// Group is the ID of the group that owns the socket. If it is negative, this is lnetd's group.
	Group int
	// Rules control which programs may connect. If there are no rules, clients.DefaultRules apply.
	Rules []clients.Rule
	// Farewell is how long lnetd waits, when it stops, for programs to disconnect by themselves.
	Farewell time.Duration
	// PollTime is how long lnetd polls for new operations at most, before it sleeps. Zero disables polling.
	PollTime time.Duration
}

// TransportFarewellMax is the maximum of Transport.Farewell.
const TransportFarewellMax = time.Minute

const (
	defaultFarewell  = 2 * time.Second
	defaultPollTime  = 100 * time.Microsecond
	maxPollTime      = 1_000_000 // µs
	maxQuota         = 1 << 24
	maxQuotaBuffers  = 1 << 20 // transport/remote rejects larger indices
	maxQuotaMemory   = 1 << 24 // MiB
	maxQuotaRequests = 1_000_000
)

// Clients returns the configuration for hosting clients. The caller must add the Core and the logger.
func (t *Transport) Clients() clients.Config {
	c := clients.Config{Rules: t.Rules, Farewell: t.Farewell, PollTime: t.PollTime}
	switch t.PollTime {
	case 0:
		c.PollTime = -1
	case defaultPollTime:
		c.PollTime = 0 // the default, which depends on the processors
	}
	return c
}

// transportKeys holds the keys of "transport".
var transportKeys = map[string]setting[Transport]{
	"enabled": boolSettings(func(t *Transport, b bool) { t.Enabled = b }),
	"socket": texts(pathText, func(t *Transport, s string) error {
		t.Socket = s
		return nil
	}),
	"group":     groupSetting(func(t *Transport, id int) { t.Group = id }),
	"farewell":  wholes(0, int(TransportFarewellMax/time.Second), func(t *Transport, n int) { t.Farewell = seconds(n) }),
	"poll_time": wholes(0, maxPollTime, func(t *Transport, n int) { t.PollTime = time.Duration(n) * time.Microsecond }),
	"rules": {list{&shape{key: "rules", keys: formsOf(ruleKeys), needed: [][]string{{"name"}}, lnetdOnly: true}},
		func(t *Transport, at place) {
			t.Rules = readRules(at, ruleKeys, func(r *clients.Rule) string { return r.Name })
		}},
}

// ruleKeys holds the keys of an item of "rules".
var ruleKeys = map[string]setting[clients.Rule]{
	"name":   ruleName(func(r *clients.Rule, s string) { r.Name = s }),
	"users":  {userList, func(r *clients.Rule, at place) { r.UIDs = at.ids("user", userID) }},
	"groups": {groupList, func(r *clients.Rule, at place) { r.GIDs = at.ids("group", groupID) }},
	"nids":   {list{scalar{nidText}}, readRuleNIDs},
	"portals": {scalar{Text{"FIRST-LAST", "10-19"}},
		func(r *clients.Rule, at place) { r.Portals = at.span(lnet.ReservedPortal+1, lnet.Portals-1) }},
	"tm_ids": {scalar{Text{"FIRST-LAST", "1-99"}},
		func(r *clients.Rule, at place) { r.TMIDs = at.span(1, transport.MaxTMID) }},
	"each": {quotasWithout("each", "connections"), func(r *clients.Rule, at place) { at.quotas(&r.Connection, "connections") }},
	"user": {quotasWithout("user", "requests"), func(r *clients.Rule, at place) { at.quotas(&r.User, "requests") }},
}

// quotasWithout returns the form of the mapping key with all quotas except never, which does not apply
// there.
func quotasWithout(key, never string) form {
	forms := formsOf(quotaKeys)
	delete(forms, never)
	return &shape{key: key, keys: forms, lnetdOnly: true}
}

func readRuleNIDs(r *clients.Rule, at place) {
	const most = 1024
	for _, item := range at.items() {
		if nids, ok := item.nids(most); ok {
			r.NIDs = append(r.NIDs, nids...)
		}
	}
}

// quotaKeys holds the keys of "each" and "user" in a rule.
var quotaKeys = map[string]setting[clients.Quotas]{
	"connections":  wholes(1, maxQuota, func(q *clients.Quotas, n int) { q.Connections = n }),
	"tms":          wholes(1, maxQuota, func(q *clients.Quotas, n int) { q.TMs = n }),
	"buffers":      wholes(1, maxQuotaBuffers, func(q *clients.Quotas, n int) { q.Buffers = n }),
	"areas":        wholes(1, maxQuota, func(q *clients.Quotas, n int) { q.Areas = n }),
	"ring_entries": wholes(1, maxQuota, func(q *clients.Quotas, n int) { q.RingEntries = n }),
	"memory":       wholes(1, maxQuotaMemory, func(q *clients.Quotas, n int) { q.Bytes = int64(n) << 20 }),
	"requests":     wholes(1, maxQuotaRequests, func(q *clients.Quotas, n int) { q.Requests = n }),
}

// quotas stores the quotas of the mapping in q. It ignores the quota never, which does not apply there
// and has been reported as an unknown key.
func (p place) quotas(q *clients.Quotas, never string) {
	for _, m := range p.optionalMembers() {
		if key, ok := quotaKeys[m.key]; ok && m.key != never {
			key.read(q, m.value)
		}
	}
}

// span returns the value as a range of numbers. It must be "FIRST-LAST" or one number, within lo and hi.
// If span has reported a problem, the result is empty.
func (p place) span(lo, hi uint32) clients.Span {
	s, ok := p.text()
	if !ok {
		return clients.Span{}
	}
	from, to, ranged := strings.Cut(s, "-")
	if !ranged {
		to = from
	}
	first, err := strconv.ParseUint(strings.TrimSpace(from), 10, 32)
	last, err2 := strconv.ParseUint(strings.TrimSpace(to), 10, 32)
	if err != nil || err2 != nil {
		p.problemf("%q is not a number or FIRST-LAST", s).remedyf(`write, for example, "%s: %d-%d"`, p.key(), lo, lo+1)
		return clients.Span{}
	}
	if first > last || first < uint64(lo) || last > uint64(hi) {
		p.problemf("%s is not within %d to %d", s, lo, hi).remedyf(`write, for example, "%s: %d-%d"`, p.key(), lo, hi)
		return clients.Span{}
	}
	return clients.Span{First: uint32(first), Last: uint32(last)}
}
