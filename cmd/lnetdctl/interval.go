package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/internal/lnetd/rates"
)

// shortestInterval and longestInterval are the limits of the option --interval.
const (
	shortestInterval = time.Second / 10
	longestInterval  = time.Hour
)

// repeat holds the options of commands that print repeatedly.
type repeat struct{ interval, count string }

func (o *repeat) add(c *cobra.Command, interval string) {
	c.Flags().StringVar(&o.interval, "interval", "", interval)
	c.Flags().StringVar(&o.count, "count", "", "end after `N` intervals (default: when interrupted)")
}

// parse returns the interval, or otherwise if none was given, and the number of intervals, or 0 for no end.
func (o *repeat) parse(otherwise time.Duration) (interval time.Duration, count int64, err error) {
	interval = otherwise
	if o.interval != "" {
		if seconds, err := strconv.ParseFloat(o.interval, 64); err == nil {
			interval = time.Duration(seconds * float64(time.Second))
		} else if interval, err = time.ParseDuration(o.interval); err != nil {
			return 0, 0, fmt.Errorf("option '--interval': '%s' is not a number of seconds", o.interval)
		}
		if interval < shortestInterval || interval > longestInterval {
			return 0, 0, fmt.Errorf("option '--interval': '%s' is not within %v to %v", o.interval, shortestInterval, longestInterval)
		}
	}
	if o.count != "" {
		n, ok := parseNumber(o.count)
		if !ok || n < 1 {
			return 0, 0, fmt.Errorf("option '--count': '%s' is not a number of intervals", o.count)
		}
		count = n
	}
	return interval, count, nil
}

// withRates adds the options --interval and --count to a command that prints the counters of the objects that of returns.
// With --interval the command prints how fast the counters grow, in place of its other output.
func (p *program) withRates(c *cobra.Command, form errorForm, of func(ctx context.Context) (counted, error)) *cobra.Command {
	var o repeat
	o.add(c, "print rates every `SECONDS`, 0.1 to 3600")
	c.Use += " [--interval SECONDS]"
	c.Long += `

With --interval it prints how much counters grow per second, in every interval, until it is
interrupted or --count intervals are over. With --json, each interval is a line.`
	show := c.RunE
	c.RunE = func(c *cobra.Command, operands []string) error {
		switch {
		case o.interval == "" && o.count != "":
			return errors.New("option '--count' needs the option --interval")
		case o.interval == "" || len(operands) > 0:
			return show(c, operands)
		}
		interval, count, err := o.parse(0)
		if err != nil {
			return err
		}
		objects, err := of(c.Context())
		if err != nil {
			return err
		}
		return p.printRates(c.Context(), form, &objects, interval, count)
	}
	return c
}

// printRates prints the rates of the counters of objects in every interval, count times, or until ctx is done if count is
// 0.
func (p *program) printRates(ctx context.Context, form errorForm, objects *counted, interval time.Duration, count int64) error {
	c := p.client()
	defer c.Close()
	var m rates.Meter
	for k := int64(0); count == 0 || k <= count; k++ {
		if k > 0 {
			if err := p.wait(ctx, interval); err != nil {
				return err
			}
		}
		at, err := beginSample(ctx, c, &m)
		var rows []rated
		if err == nil {
			rows, err = objects.rates(ctx, c, &m)
		}
		switch {
		case err != nil:
			return p.refused(form, err)
		case k == 0:
		case p.json:
			err = p.printJSONLine(ratesJSON{at, m.Seconds(), objectsJSON(objects.names, rows)})
		default:
			_, err = fmt.Fprint(p.stdout, ratesText(at, m.Seconds(), objects, rows))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// beginSample begins a sample of counters of lnetd, and returns its time by lnetd's clock.
func beginSample(ctx context.Context, c *client.Client, m *rates.Meter) (time.Time, error) {
	v, err := c.Version(ctx)
	if err != nil {
		return time.Time{}, err
	}
	uptime := time.Duration(v.Uptime * float64(time.Second))
	m.Begin(v.Started, uptime)
	return v.Started.Add(uptime), nil
}

// rated is an object, or several with the same name, with the rates of its counters.
type rated struct {
	name, note string
	rates      []float64
}

// each reads the objects from lnetd and calls do for each name.
func (o *counted) each(ctx context.Context, c *client.Client, m *rates.Meter, do func(rated)) error {
	var last *rated
	for s, err := range o.samples(ctx, c) {
		if err != nil {
			return err
		}
		now := rated{s.name, s.note, m.Rates(o.heading+" "+s.key, s.counters)}
		if last != nil && last.name == now.name {
			for k, r := range now.rates {
				last.rates[k] += r
			}
			last.note = cmp.Or(last.note, now.note)
			continue
		}
		if last != nil {
			do(*last)
		}
		last = &now
	}
	if last != nil {
		do(*last)
	}
	return nil
}

// rates reads the objects from lnetd and returns them with their rates.
func (o *counted) rates(ctx context.Context, c *client.Client, m *rates.Meter) (rows []rated, err error) {
	err = o.each(ctx, c, m, func(r rated) { rows = append(rows, r) })
	return rows, err
}

// ratesJSON is what commands with --interval --json print, on one line for each interval.
type ratesJSON struct {
	Time    time.Time    `json:"time"`
	Seconds float64      `json:"seconds"`
	Objects []objectJSON `json:"objects"`
}

// objectJSON is an object with its rates by the names of the counters.
type objectJSON struct {
	Name  string             `json:"name"`
	Note  string             `json:"note,omitempty"`
	Rates map[string]float64 `json:"per_second"`
}

func objectsJSON(names []string, rows []rated) []objectJSON {
	all := make([]objectJSON, len(rows))
	for k, r := range rows {
		all[k] = objectJSON{r.name, r.note, make(map[string]float64, len(names))}
		for i, name := range names {
			all[k].Rates[name] = r.rates[i]
		}
	}
	return all
}

// ratesText returns the rates in an interval as a table with a heading.
func ratesText(at time.Time, seconds float64, o *counted, rows []rated) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, in %s s:\n", at.Local().Format(time.TimeOnly), strconv.FormatFloat(seconds, 'f', 1, 64))
	columns := []int{}
	for k := range o.names {
		if k < o.always || slices.ContainsFunc(rows, func(r rated) bool { return r.rates[k] != 0 }) {
			columns = append(columns, k)
		}
	}
	rateTable(o.heading, o.names, columns, rows).write(&b, "")
	return b.String()
}

// rateTable returns a table of the given columns of rates, each with the name of its counter.
func rateTable(heading string, names []string, columns []int, rows []rated) table {
	// The second column of a table is that of names, which is aligned to the left. The first one is empty.
	head := []string{heading, ""}
	for _, k := range columns {
		head = append(head, names[k]+"/s")
	}
	lines := table{append(head, "")}
	for _, r := range rows {
		line := []string{r.name, ""}
		for _, k := range columns {
			line = append(line, perSecond(r.rates[k]))
		}
		lines = append(lines, append(line, r.note))
	}
	return lines
}

// perSecond formats a rate: with one decimal digit if it is small, and with a prefix if it is large.
func perSecond(v float64) string {
	const kilo = 1000
	switch {
	case v == 0 || v >= 100 && v < 10*kilo:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	unit := -1
	for v >= kilo && unit < len(prefixes)-1 {
		v /= kilo
		unit++
	}
	digits := 1
	if v >= 100 {
		digits = 0
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + prefixes[unit:unit+1]
}

// prefixes are those of thousands, millions and so on.
const prefixes = "kMGTPE"
