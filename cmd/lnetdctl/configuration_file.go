package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/internal/control/client"
)

// stdinName is what problems call standard input.
const stdinName = "stdin"

// readDocument reads the file that is the one operand, or standard input without one, or
// for "-". The error has been reported.
func (p *program) readDocument(operands []string) (d api.Document, err error) {
	if len(operands) > 1 {
		return d, fmt.Errorf("unexpected operand '%s'", operands[1])
	}
	d.Name = stdinName
	from := p.stdin
	if len(operands) == 1 && operands[0] != "-" {
		d.Name = operands[0]
		f, err := os.Open(d.Name)
		if err != nil {
			return d, p.badFile(d.Name, err, exitNoFile)
		}
		defer func() { _ = f.Close() }()
		from = f
	}
	if from == nil {
		return d, nil
	}
	b, err := io.ReadAll(io.LimitReader(from, api.DocumentMax+1))
	switch {
	case err != nil:
		return d, p.badFile(d.Name, err, exitNoFile)
	case len(b) > api.DocumentMax:
		return d, p.invalid(ownErrors, -27, d.Name+": a document has 16 MiB at most", "split it")
	}
	d.Text = string(b)
	return d, nil
}

// changeBy changes the configuration by a document, or asks what that would do.
func (p *program) changeBy(ctx context.Context, form errorForm, r api.ConfigurationChange) (done api.ConfigurationChanged, err error) {
	err = p.tell(form, func(c *client.Client) error {
		done, err = c.ChangeConfiguration(ctx, r)
		return err
	})
	if err == nil && !p.json {
		p.warnOf(&done)
	}
	return done, err
}

// warnOf tells what of a document has no effect, and what takes a restart.
func (p *program) warnOf(done *api.ConfigurationChanged) {
	for k := range done.Warnings {
		p.warn(problemText(&done.Warnings[k]))
	}
	for _, what := range done.Restart {
		p.warn(what + ": takes a restart of lnetd")
	}
}

// problemText says all of a problem on one line: "FILE:LINE:COLUMN: KEY: TEXT; REMEDY".
func problemText(r *api.Problem) string {
	s := r.File
	if r.Line > 0 {
		s += fmt.Sprintf(":%d", r.Line)
		if r.Column > 0 {
			s += fmt.Sprintf(":%d", r.Column)
		}
	}
	if r.Key != "" {
		s += ": " + r.Key
	}
	s += ": " + r.Text
	if r.Remedy != "" {
		s += "; " + r.Remedy
	}
	return s
}
