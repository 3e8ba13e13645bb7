package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// streamErrors is the form of errors of commands that read a stream.
var streamErrors = errorForm{kind: ownText, explained: true}

func (p *program) eventsCommand() *cobra.Command {
	var since string
	var kinds []string
	var follow bool
	c := leaf(manual{
		use:   "events [--since TIME] [--kind KIND[,KIND]...] [--follow]",
		short: "print what has happened to the node: NIs, peers, routes, clients, changes",
		long: `Prints the events that lnetd remembers, the oldest first: the time, the level, the kind, what
the event is about, and the message of the log with its attributes. lnetd keeps the
latest 256 events of each kind, also those that the limits or the level of the log keep
out of the log. If events are missing, a line of the kind "lost" says how many.

With --follow it goes on to print events when they happen, until it is interrupted. A
reader that is too slow loses events; lnetd does not wait for it.

TIME is a duration before now, such as 10m or 36h, or a time: 15:04:05 (the latest one),
"2006-01-02 15:04:05", or 2006-01-02T15:04:05Z. The kinds of events are
` + strings.Join(api.EventKinds()[:8], ", ") + `,
` + strings.Join(api.EventKinds()[8:], ", ") + `.

With --json each event is an object on one line.`,
		example: `lnetdctl events
lnetdctl events --since 10m --kind ni,connection
lnetdctl events --follow --json`,
		exits: `0    success
1    help was requested
234  an option is invalid, or the request was refused (-22)
255  lnetd does not answer, or has ended the stream (-1)`,
	}, func(ctx context.Context) error {
		f := api.EventFilter{Kinds: kinds, Follow: follow}
		if since != "" {
			var err error
			if f.Since, err = parseSince(since, time.Now()); err != nil {
				return err
			}
		}
		return p.events(ctx, f)
	})
	c.Flags().StringVarP(&since, "since", "s", "", "leave out events before `TIME` (default: all that are kept)")
	c.Flags().StringSliceVarP(&kinds, "kind", "k", nil, "print only events of `KIND`; may be repeated (default: all)")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "wait for further events")
	_ = c.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(api.EventKinds(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (p *program) events(ctx context.Context, f api.EventFilter) error {
	client := p.client()
	defer client.Close()
	s, err := client.Events(ctx, f)
	if err != nil {
		return p.refused(streamErrors, err)
	}
	defer func() { _ = s.Close() }()
	lines := bufio.NewReader(s)
	for {
		line, err := lines.ReadBytes('\n')
		if err == nil {
			err = p.printEvent(line)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return p.refused(streamErrors, err)
		}
	}
}

// printEvent prints an event, which is given as a line of JSON.
func (p *program) printEvent(line []byte) error {
	if p.json {
		_, err := p.stdout.Write(line)
		return err
	}
	var e api.Event
	if err := json.Unmarshal(line, &e); err != nil {
		return err
	}
	_, err := io.WriteString(p.stdout, eventText(&e)+"\n")
	return err
}

// eventText returns an event as a line for a terminal, without a newline. Characters that could change the terminal are
// escaped, because peers and programs determine some of the text.
func eventText(e *api.Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %-5s %-13s ", e.Time.Local().Format("2006-01-02 15:04:05.000"), e.Level, e.Kind)
	if e.Subject != "" {
		b.WriteString(printableWord(e.Subject) + ": ")
	}
	b.WriteString(printableText(e.Text))
	if e.Lost > 0 {
		fmt.Fprintf(&b, ": %d", e.Lost)
	}
	for _, key := range slices.Sorted(maps.Keys(e.Details)) {
		b.WriteString(" " + printableWord(key) + "=" + printableWord(e.Details[key]))
	}
	return b.String()
}

// printableWord returns s, quoted if it is not a word of printable characters.
func printableWord(s string) string {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' || r == '"' || r == '=' }) {
		return strconv.Quote(s)
	}
	return s
}

// printableText returns s, quoted if it has characters that are not printable.
func printableText(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// parseSince returns the time that the value of --since means at the time now. It returns an error if that time is in the
// future.
func parseSince(s string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if t, err := time.ParseInLocation(time.TimeOnly, s, now.Location()); err == nil {
		y, m, d := now.Date()
		at := func(day int) time.Time {
			return time.Date(y, m, day, t.Hour(), t.Minute(), t.Second(), 0, now.Location())
		}
		if today := at(d); !today.After(now) {
			return today, nil
		}
		return at(d - 1), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			if t.After(now) {
				return time.Time{}, fmt.Errorf("option '--since': '%s' is in the future", s)
			}
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("option '--since': '%s' is neither a duration, such as 10m, nor a time, such as 2006-01-02 15:04:05", s)
}
