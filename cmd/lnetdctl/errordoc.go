package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// errorForm describes how a command prints errors, and which exit status it has.
type errorForm struct {
	kind       errorKind
	op, entity string
	// seqNo is the sequence number of the block of a document that has the error, or nil.
	seqNo *int64
	// exit, if not 0, is the exit status for all errors. If byErrno is set, the exit status is the errno
	// even for a newDocument.
	exit    status
	byErrno bool
	// explained is set if the cause and the remedy are always printed. This is so for commands that
	// lnetctl does not have, because no script compares their output with lnetctl's.
	explained bool
	// timed is set if results of pings are printed with their round-trip times.
	timed bool
	// advises is set if the remedy, such as the valid values, is always printed. It is printed as a
	// warning, so that the error document is equal to lnetctl's.
	advises bool
}

type errorKind uint8

const (
	// newDocument is an error document with errno and descr at the same level as the entity. The exit
	// status is that of invalid requests for any errno (lnetctl 2.1).
	newDocument errorKind = iota
	// oldDocument is an error document with errno and descr below the entity. The exit status is the
	// errno (lnetctl 2.2).
	oldDocument
	// plainText is a line on stdout. The exit status is the errno (lnetctl 2.4).
	plainText
	// ownText is a line on stderr, for commands that lnetctl does not have. The exit status is the
	// errno.
	ownText
)

// newErrorDocument prints the error document of lnetctl's newer interface, in which errno and descr are at the
// same level as the entity (lnetctl 2.1).
func newErrorDocument(w io.Writer, op string, errors ...mapping) {
	fmt.Fprintln(w, "---")
	_ = wide.write(w, mapping{{op, sequence(errors)}})
	fmt.Fprintln(w, "...")
}

// errorEntry returns the item for one error in the document that newErrorDocument prints, or in the results of
// pings and discoveries. The argument seqNo is the sequence number of the block with the error, or nil.
func errorEntry(entity string, seqNo *int64, errno int, descr scalar) mapping {
	m := mapping{{entity, nil}}
	if seqNo != nil {
		m = append(m, entry{"seq_no", number(*seqNo)})
	}
	return append(m, entry{"errno", number(errno)}, entry{"descr", descr})
}

// oldErrorDocument prints the error document of lnetctl's library, in which errno and descr are below the entity
// (lnetctl 2.2).
func oldErrorDocument(w io.Writer, op, entity string, errno int, descr string) {
	_ = classic.write(w, mapping{{op, sequence{{
		{entity, mapping{
			{"errno", number(errno)},
			{"descr", quoted(descr)},
		}},
	}}}})
}

// refused prints an error that lnetd has returned, or an error of connecting to lnetd, and returns the exit
// status.
func (p *program) refused(form errorForm, err error) error {
	f := api.FaultOf(err)
	if f.Remedy == "" && !p.json { // advice for errors of this kind is never part of documents
		defer p.advise(f)
	}
	exit := form.exit
	switch {
	case exit != 0:
	case form.kind == newDocument && !form.byErrno:
		exit = exitInvalid
	default:
		exit = statusOf(f.Errno)
	}
	switch {
	case p.json:
		p.failJSON(f)
		if f.Code == api.CodeDaemonUnreachable {
			exit = exitFailure
		}
		return exit
	case f.Code == api.CodeDaemonUnreachable:
		descr := f.Text
		if f.Cause != "" {
			descr += ": " + f.Cause
		}
		oldErrorDocument(p.stderr, "lnetctl", "startup", -1, descr)
		p.hint(f.Remedy)
		return status(exitFailure)
	}
	if form.explained && len(f.Problems) == 0 {
		form.report(p, &api.Fault{Errno: f.Errno, Text: faultText(f), SeqNo: f.SeqNo})
		return exit
	}
	form.report(p, f)
	if f.Cause != f.Text && len(f.Problems) == 0 {
		p.hint(f.Cause)
	}
	if form.advises && f.Remedy != "" && (f.Code == api.CodeParameterInvalid || f.Code == api.CodeRequestInvalid) {
		p.warn(f.Remedy)
	} else {
		p.hint(f.Remedy)
	}
	return exit
}

// faultText returns the text, the cause and the remedy of a fault as one line.
func faultText(f *api.Fault) string {
	s := f.Text
	if f.Cause != "" && !strings.Contains(s, f.Cause) {
		s += ": " + f.Cause
	}
	if f.Remedy != "" {
		s += "; " + f.Remedy
	}
	return s
}

func (form *errorForm) report(p *program, f *api.Fault) {
	if len(f.Problems) > 0 {
		form.reportProblems(p, f)
		return
	}
	switch form.kind {
	case newDocument:
		newErrorDocument(p.stderr, form.op, errorEntry(form.entity, cmp.Or(form.seqNo, f.SeqNo), f.Errno, tagged(f.Text)))
	case oldDocument:
		oldErrorDocument(p.stderr, form.op, form.entity, f.Errno, f.Text)
	case plainText:
		fmt.Fprintln(p.stdout, f.Text)
	case ownText:
		fmt.Fprintf(p.stderr, "%s: %s\n", p.name, f.Text)
	}
}

// reportProblems prints each of the problems in f as a separate error.
func (form *errorForm) reportProblems(p *program, f *api.Fault) {
	if form.kind != newDocument {
		for k := range f.Problems {
			fmt.Fprintf(p.stderr, "%s: %s\n", p.name, f.Problems[k].Error())
		}
		return
	}
	var list sequence
	for k := range f.Problems {
		list = append(list, errorEntry(form.entity, f.Problems[k].SeqNo, f.Errno, tagged(f.Problems[k].Error())))
	}
	newErrorDocument(p.stderr, form.op, list...)
}

// invalid prints an error that lnetdctl has detected itself, in the same form as refused, and returns the exit
// status.
func (p *program) invalid(form errorForm, errno int, text, remedy string) error {
	return p.refused(form, &api.Fault{
		Code: api.CodeRequestInvalid, Errno: errno, Text: text, Remedy: remedy,
	})
}

// statusOf converts an errno to an exit status: its low 8 bits (lnetctl 1.4).
func statusOf(errno int) status {
	if s := status(errno & 0xff); s != exitOK {
		return s
	}
	return exitInvalid
}

// advise prints the remedy for an error as advice.
func (p *program) advise(f *api.Fault) { p.hint(f.WithRemedy().Remedy) }

// fail prints an error of the command c that has not been printed yet.
func (p *program) fail(c *cobra.Command, err error) {
	var f *api.Fault
	known := errors.As(err, &f)
	switch {
	case p.json && known:
		p.failJSON(f)
	case p.json:
		p.failJSON(&api.Fault{Code: api.CodeRequestInvalid, Errno: -int(api.Errno(err)), Text: err.Error(), Remedy: helpRemedy(c)})
	case known:
		fmt.Fprintf(p.stderr, "%s: %s", p.name, f.WithRemedy().Report())
	default:
		fmt.Fprintf(p.stderr, "%s: %v\n", p.name, err)
		p.hint(helpRemedy(c))
	}
}

// helpRemedy returns the remedy for an invalid command line of the command c.
func helpRemedy(c *cobra.Command) string {
	return `"` + c.CommandPath() + ` --help" explains the command`
}

func (p *program) failJSON(f *api.Fault) {
	out := *p
	out.stdout = p.stderr
	_ = out.printJSON(struct {
		Error *api.Fault `json:"error"`
	}{f.WithRemedy()})
}
