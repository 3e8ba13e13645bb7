package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
)

const clientExits = `0    success
1    help was requested
234  the operand is not a client number (-22)
254  there is no such client (-2)
255  lnetd does not answer (-1)`

func (p *program) clientsCommand() *cobra.Command {
	var level string
	form := errorForm{kind: ownText}
	c := leaf(manual{
		use:   "clients [--verbose]",
		short: "print the processes that have transfer machines in lnetd or serve its nets",
		long: `Prints one line per connection: its number, the process, its numbers of transfer
machines and buffers, its bytes of shared memory, and when it connected. With --verbose
it also prints each transfer machine: its address, how full its completion ring is, how
often lnetd slept because there was no work, and the counters of its queues: operations
added, cancelled, completed and failed, bytes, the largest number at one time, and the
total time of operations on the queue. Message queues count messages, not operations.

If proxies serve nets, a second list has a line for each proxy, with the NI, the process,
the PIDs of processes on its network that it serves, the messages that it has sent, failed
to send and received, and the number of messages in progress. NIs without a proxy that can
carry traffic are listed with the reason.`,
		example: `lnetdctl clients
lnetdctl clients -v
lnetdctl clients --interval 1 --count 3`,
	}, func(ctx context.Context) error {
		client := p.client()
		defer client.Close()
		all, err := client.Clients(ctx)
		switch {
		case err != nil:
			return p.refused(form, err)
		case p.json:
			return p.printJSON(all)
		}
		_, err = fmt.Fprint(p.stdout, clientsText(&all, verbosityLevel(level) >= 1))
		return err
	})
	verbosity(c, &level, "print transfer machines too; all `LEVEL`s above 0 mean the same")
	return p.withRates(c, form, func(context.Context) (counted, error) { return clientCounters(verbosityLevel(level)), nil })
}

func (p *program) clientCommand() *cobra.Command {
	return group("client", "one client process", command(manual{
		use: "drop ID", short: "disconnect a client",
		long: `Closes the connection, reports the reason to the program, and frees everything that it
had. ID is the number that "clients" prints.`,
		example: "lnetdctl client drop 7",
		exits:   clientExits, number: true,
	}, func(ctx context.Context, operands []string) error {
		if len(operands) != 1 {
			return needsHelp{exitInvalid}
		}
		id, err := strconv.ParseUint(operands[0], 10, 64)
		if err != nil {
			return fmt.Errorf("'%s' is not a client number; \"clients\" lists them", operands[0])
		}
		return p.tell(errorForm{kind: ownText}, func(c *client.Client) error { return c.DropClient(ctx, id) })
	}))
}

// clientsText returns the output of "clients", with the transfer machines if verbose is set.
func clientsText(all *api.Clients, verbose bool) string {
	var b strings.Builder
	if all.Socket == "" {
		b.WriteString("no transfer machines are hosted: \"transport\" is switched off in the configuration\n")
		proxiesText(&b, all)
		return b.String()
	}
	lines := table{{"id", "program", "pid", "uid", "tms", "buffers", "bytes", "rule", "since", "cgroup"}}
	for k := range all.Clients {
		c := &all.Clients[k]
		line := []string{
			strconv.FormatUint(c.ID, 10), orDash(c.Program), strconv.Itoa(int(c.PID)), strconv.FormatUint(uint64(c.UID), 10),
			strconv.Itoa(len(c.TMs)), strconv.Itoa(c.Buffers), strconv.FormatInt(c.Bytes, 10),
			orDash(c.Rule), clock(c.Since), orDash(c.Cgroup),
		}
		if c.Ending {
			line[1] += " (ending)"
		}
		lines = append(lines, line)
	}
	lines.write(&b, "")
	if verbose {
		for k := range all.Clients {
			c := &all.Clients[k]
			for j := range c.TMs {
				clientTMText(&b, c, &c.TMs[j])
			}
		}
	}
	proxiesText(&b, all)
	return b.String()
}

// clientTMText writes a description of the transfer machine t of the client c and of its queues to b.
func clientTMText(b *strings.Builder, c *api.ClientInfo, t *api.ClientTM) {
	fmt.Fprintf(b, "\nclient %d, TM %s:%d:%d:%d\n", c.ID, t.NID, t.PID, t.Portal, t.ID)
	fmt.Fprintf(b, "  completions: %d, room for %d, %d wait, %d overflowed, %d of these are kept\n", t.Completions, t.Entries, t.Waiting, t.Overflowed, t.Kept)
	fmt.Fprintf(b, "  submissions: %d, %d rejected\n", t.Submissions, t.Rejected)
	fmt.Fprintf(b, "  polls: %d, %d found submissions\n", t.Polls, t.Found)
	fmt.Fprintf(b, "  waits: %d, %d of these on the flag, woken %d times, woke the client %d times\n", t.Waits, t.WordWaits, t.BellReads, t.BellWrites)
	lines := table{{"", "queue", "depth", "added", "cancelled", "completed", "failed", "bytes", "max", "in queue"}}
	for _, q := range t.Queues {
		lines = append(lines, []string{
			"", q.Queue, strconv.Itoa(q.Depth), strconv.FormatUint(q.Added, 10), strconv.FormatUint(q.Cancelled, 10),
			strconv.FormatUint(q.Completed, 10), strconv.FormatUint(q.Failed, 10),
			strconv.FormatUint(q.Bytes, 10), strconv.FormatUint(q.MaxBytes, 10), strconv.FormatFloat(q.Seconds, 'f', 3, 64) + "s",
		})
	}
	lines.write(b, " ")
}

// orDash returns s, or "-" if s is empty.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
