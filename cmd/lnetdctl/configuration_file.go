package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/internal/lnetd/modparam"
)

// stdinName is the name of standard input in messages about problems.
const stdinName = "stdin"

// documentOptions holds the option that selects the format of a configuration file.
type documentOptions struct{ modprobe bool }

func (o *documentOptions) flags(f *pflag.FlagSet) {
	f.BoolVar(&o.modprobe, "modprobe", false, "the file has module parameters, in the format of /etc/modprobe.d")
}

// A document is a configuration file that has been read, and converted to YAML if necessary.
type document struct {
	api.Document
	// modprobe reports whether the text was converted from a modprobe file. Its line numbers are those
	// of the modprobe file.
	modprobe bool
	// found holds the problems that were found during the conversion. If wrong is set, they include
	// errors, and the text has only the valid part of the file.
	found []api.Problem
	wrong bool
}

// readDocument reads the file that the operand names, or standard input if the operand is "-" or missing. If it
// returns an error, it has printed it.
func (p *program) readDocument(o documentOptions, operands []string) (document, error) {
	d, err := p.readText(operands)
	if err != nil || !o.modprobe {
		return document{Document: d}, err
	}
	yaml, found, err := modparam.Configuration(d.Name, []byte(d.Text))
	if err != nil && p.askedNetTypes() { // it may be a name of a net type
		yaml, found, err = modparam.Configuration(d.Name, []byte(d.Text))
	}
	var wrong modparam.Problems
	if errors.As(err, &wrong) {
		found = wrong
	}
	d.Text = string(yaml)
	of := document{Document: d, modprobe: true, wrong: err != nil}
	for _, one := range found {
		of.found = append(of.found, *one)
	}
	return of, nil
}

// withFound returns the problems that lnetd has reported, together with those that were found during the
// conversion from a modprobe file.
func (d *document) withFound(said []api.Problem) []api.Problem {
	if !d.modprobe {
		return said
	}
	all := slices.Clone(d.found)
	for _, one := range said {
		one.Column = 0 // columns of the converted text are wrong for the modprobe file
		if name := modparam.Option(one.Key); name != "" {
			one.Key = name
		}
		all = append(all, one)
	}
	slices.SortStableFunc(all, func(a, b api.Problem) int { return cmp.Compare(a.Line, b.Line) })
	return all
}

// judged returns the error to print about a document for which lnetd has returned warnings and the error err. It
// is nil only if err is nil and the conversion found no errors.
func (d *document) judged(warnings []api.Problem, err error) error {
	if !d.wrong && err == nil {
		return nil
	}
	f := &api.Fault{Code: api.CodeConfigInvalid, Errno: -int(unix.EINVAL), Text: "the document " + d.Name + " has errors; nothing is changed"}
	if said := (*api.Fault)(nil); errors.As(err, &said) && len(said.Problems) > 0 {
		*f = *said
	} else if !d.wrong {
		return err
	}
	for _, w := range warnings {
		w.Warning = true
		f.Problems = append(f.Problems, w)
	}
	f.Problems = d.withFound(f.Problems)
	return f
}

// readText reads a file like readDocument, but does not convert it to YAML.
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
	var b strings.Builder // not a slice of bytes, which would have to be copied
	if f, ok := from.(*os.File); ok {
		if info, err := f.Stat(); err == nil {
			b.Grow(int(min(info.Size(), api.DocumentMax+1)))
		}
	}
	_, err = io.Copy(&b, io.LimitReader(from, api.DocumentMax+1))
	switch {
	case err != nil:
		return d, p.badFile(d.Name, err, exitNoFile)
	case b.Len() > api.DocumentMax:
		return d, p.invalid(ownErrors, -27, fmt.Sprintf("%s: the document is longer than %d MiB", d.Name, api.DocumentMax>>20), "split it")
	}
	d.Text = b.String()
	return d, nil
}

// changeBy makes lnetd change the configuration according to a document, and prints warnings. It returns the
// changes. In a dry run, lnetd only returns them. A document with errors is sent as a dry run, so that lnetd
// finds further problems. If changeBy returns an error, it has printed it.
func (p *program) changeBy(ctx context.Context, form errorForm, d *document, r api.ConfigurationChange) (done api.ConfigurationChanged, err error) {
	r.Document, r.Dry = d.Document, r.Dry || d.wrong
	err = p.tell(form, func(c *client.Client) error {
		done, err = c.ChangeConfiguration(ctx, r)
		return d.judged(done.Warnings, err)
	})
	done.Warnings = d.withFound(done.Warnings)
	if err == nil && !p.json {
		p.warnOf(&done)
	}
	return done, err
}

// warnOf prints a warning for each entry of a document that has no effect, and for each change that needs a
// restart of lnetd.
func (p *program) warnOf(done *api.ConfigurationChanged) {
	for k := range done.Warnings {
		p.warn(done.Warnings[k].Error())
	}
	for _, what := range done.Restart {
		p.warn(what + ": needs a restart of lnetd")
	}
}
