package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/internal/control/client"
	"github.com/lnetd/lnetd/internal/modparam"
)

// stdinName is what problems call standard input.
const stdinName = "stdin"

// documentOptions say how a file is to be read.
type documentOptions struct{ modprobe bool }

func (o *documentOptions) flags(f *pflag.FlagSet) {
	f.BoolVar(&o.modprobe, "modprobe", false, "the file has module parameters, as in /etc/modprobe.d")
}

// readDocument reads the file that is the one operand, or standard input without one, or
// for "-". The error has been reported.
func (p *program) readDocument(o documentOptions, form errorForm, operands []string) (d api.Document, err error) {
	d, err = p.readText(operands)
	if err != nil || !o.modprobe {
		return d, err
	}
	return p.modprobeDocument(form, d)
}

// modprobeDocument is what a modprobe file means.
func (p *program) modprobeDocument(form errorForm, d api.Document) (api.Document, error) {
	yaml, warnings, err := modparam.Configuration(d.Name, []byte(d.Text))
	for _, w := range warnings {
		p.warn(w)
	}
	if err != nil {
		f := &api.Fault{Code: api.CodeConfigInvalid, Errno: -22, Text: "the configuration has errors"}
		for _, problem := range modparam.Problems(err) {
			f.Problems = append(f.Problems, api.Problem{File: problem.File, Line: problem.Line, Text: problem.Err.Error()})
		}
		return d, p.refused(form, f)
	}
	d.Text = string(yaml)
	return d, nil
}

// readText is readDocument for the text as it stands.
func (p *program) readText(operands []string) (d api.Document, err error) {
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
		return d, p.invalid(ownErrors, -27, fmt.Sprintf("%s: a document has %d MiB at most", d.Name, api.DocumentMax>>20), "split it")
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
	if r.Warning {
		s += ": warning"
	}
	s += ": " + r.Text
	if r.Remedy != "" {
		s += "; " + r.Remedy
	}
	return s
}
