package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// line is a command line, understood as far as its grammar goes.
type line struct {
	// cmd is the command, or the group of commands that was named last.
	cmd *cobra.Command
	// args are the arguments in the form that cobra reads: full names of
	// options with their values attached.
	args []string
	// cut says that names of commands may be cut, and written in any case.
	cut bool
	// word is one of the words that every level understands, if given; dashed says
	// that it had dashes.
	word   string
	dashed bool
	// help says that the command's help was asked for.
	help bool
}

// Words that every level understands, with and without dashes (lnetctl 1.2).
const (
	wordHelp    = "help"
	wordVersion = "version"
	wordList    = "list-commands"
	wordQuit    = "quit"
	wordExit    = "exit"
	wordIgnore  = "ignore_errors"
)

// helpSucceeds marks commands of which help is not asked in place of their work.
const helpSucceeds = "help-succeeds"

// instead tells whether the help that was asked for takes the place of a command's
// work, which is no success: so it is with --help, not with the word help before the
// command.
func (l *line) instead() bool {
	if l.cmd.Parent() == nil || l.cmd.Name() == lstName {
		return false
	}
	_, helps := l.cmd.Annotations[helpSucceeds]
	return (l.help || l.dashed) && !helps
}

// unknownCommand is a word that is not a command where it stands; it may be the
// beginning of several.
type unknownCommand struct {
	name, program string
	like          []string
}

func (e *unknownCommand) Error() string {
	if len(e.like) > 0 {
		return fmt.Sprintf("'%s' is ambiguous: it may be %s", e.name, strings.Join(e.like, ", "))
	}
	return fmt.Sprintf("'%s' is not a valid command. See '%s --list-commands'.", e.name, e.program)
}

// optionalLevel marks options whose value is the next argument, if that is a
// number without a sign (lnetctl 4.4).
const optionalLevel = "optional-level"

// numberOperand marks commands whose operand is a number, also a negative one.
const numberOperand = "number-operand"

// readLine reads a command line as getopt_long does: options anywhere, long
// names cut to an unambiguous beginning, values attached or apart. The line is
// filled as far as it was understood even if there is an error.
func readLine(root *cobra.Command, args []string, cut bool) (line, error) {
	args = joinLists(args)
	l := line{cmd: root, cut: cut}
	var negative []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		next := func() (string, bool) {
			if i+1 < len(args) {
				return args[i+1], true
			}
			return "", false
		}
		var used bool
		var err error
		switch {
		case a == "--":
			l.args = append(l.args, args[i:]...)
			return l, nil
		case strings.HasPrefix(a, "--"):
			if l.commonWord(a[2:]) {
				l.dashed = true
				return l, l.helpFor(args[i+1:])
			}
			used, err = l.long(a[2:], next)
		case l.takesNumber(a):
			negative = append(negative, a)
		case len(a) > 1 && a[0] == '-':
			used, err = l.short(a[1:], next)
		case l.cmd.HasSubCommands():
			if err := l.command(a); err != nil {
				return l, err
			}
			if l.word != "" {
				return l, l.helpFor(args[i+1:])
			}
		default:
			l.args = append(l.args, a)
		}
		if err != nil {
			return l, err
		}
		if used {
			i++
		}
	}
	if len(negative) > 0 {
		l.args = append(append(l.args, "--"), negative...)
	}
	return l, nil
}

// joinLists joins the value of an option that ends with a comma to what follows, so that blanks
// may stand behind the commas of a list, as the Multi-Rail design prints them.
func joinLists(args []string) (out []string) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			return append(out, args[i:]...)
		}
		value := strings.HasPrefix(a, "-") || i > 0 && strings.HasPrefix(args[i-1], "-")
		for value && strings.HasSuffix(a, ",") && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			i++
			a += args[i]
		}
		out = append(out, a)
	}
	return out
}

// otherNames are further names of options.
var otherNames = map[string]string{"ip2nets": "ip2net"}

// takesNumber tells whether an argument is an operand in spite of its dash.
func (l *line) takesNumber(a string) bool {
	_, takes := l.cmd.Annotations[numberOperand]
	_, ok := parseNumber(a)
	return takes && ok
}

// commonWord takes one of the words of every level.
func (l *line) commonWord(name string) bool {
	switch name {
	case wordHelp, wordVersion, wordList, wordQuit, wordExit, wordIgnore:
		if l.cmd.HasSubCommands() {
			l.word = name
			return true
		}
	}
	return false
}

// command takes a command word.
func (l *line) command(name string) error {
	var like []string
	for _, c := range l.cmd.Commands() {
		if c.Name() == name || l.cut && strings.EqualFold(c.Name(), name) {
			l.cmd = c
			l.args = append(l.args, c.Name())
			return nil
		}
		if l.cut && strings.HasPrefix(c.Name(), strings.ToLower(name)) {
			like = append(like, c.Name())
		}
	}
	switch {
	case l.commonWord(name):
		return nil
	case len(like) == 1:
		return l.command(like[0])
	}
	return &unknownCommand{name: name, program: l.cmd.Root().Name(), like: like}
}

// helpFor takes the names after "help".
func (l *line) helpFor(names []string) error {
	if l.word != wordHelp {
		return nil
	}
	for _, name := range names {
		if strings.HasPrefix(name, "-") || !l.cmd.HasSubCommands() {
			break
		}
		if err := l.command(name); err != nil {
			return err
		}
		l.dashed = false
	}
	return nil
}

// long takes "name" or "name=value"; used tells that next was its value.
func (l *line) long(s string, next func() (string, bool)) (used bool, _ error) {
	name, value, attached := strings.Cut(s, "=")
	f, err := l.find(name)
	if err != nil {
		return false, err
	}
	if f.Name == wordHelp {
		l.help = true
		return false, nil
	}
	return l.option(f, "--"+f.Name, value, attached, next)
}

// short takes a cluster of short options, the last perhaps with its value.
func (l *line) short(s string, next func() (string, bool)) (used bool, _ error) {
	for i, c := range s {
		if c == 'h' {
			l.help = true
			continue
		}
		f := l.lookup(func(f *pflag.Flag) bool { return f.Shorthand == string(c) })
		if len(f) == 0 {
			return false, fmt.Errorf("invalid option -- '%c'", c)
		}
		rest := s[i+1:]
		if f[0].NoOptDefVal == "" || rest == "" || isLevel(f[0], rest) {
			return l.option(f[0], "-"+string(c), rest, rest != "", next)
		}
		l.args = append(l.args, "--"+f[0].Name+"="+f[0].NoOptDefVal)
	}
	return false, nil
}

// option takes one option whose name has been understood.
func (l *line) option(f *pflag.Flag, shown, value string, attached bool, next func() (string, bool)) (bool, error) {
	used := false
	if !attached {
		v, there := next()
		switch {
		case f.NoOptDefVal == "" && !there:
			return false, fmt.Errorf("option '%s' requires an argument", shown)
		case f.NoOptDefVal == "" || there && isLevel(f, v):
			value, used = v, true
		default:
			value = f.NoOptDefVal
		}
	}
	if f.Value.Type() == "bool" && attached {
		return false, fmt.Errorf("option '%s' doesn't allow an argument", shown)
	}
	l.args = append(l.args, "--"+f.Name+"="+value)
	return used, nil
}

func isLevel(f *pflag.Flag, s string) bool {
	if _, ok := f.Annotations[optionalLevel]; !ok || strings.HasPrefix(s, "-") {
		return false
	}
	_, ok := parseNumber(s)
	return ok
}

// find returns the option with the given name, or the only one that begins so.
func (l *line) find(name string) (*pflag.Flag, error) {
	fs := l.lookup(func(f *pflag.Flag) bool { return strings.HasPrefix(f.Name, name) })
	for _, f := range fs {
		if f.Name == name {
			return f, nil
		}
	}
	switch len(fs) {
	case 0:
		if other, ok := otherNames[name]; ok {
			return l.find(other)
		}
		return nil, fmt.Errorf("unrecognized option '--%s'", name)
	case 1:
		return fs[0], nil
	}
	var names []string
	for _, f := range fs {
		names = append(names, "'--"+f.Name+"'")
	}
	return nil, fmt.Errorf("option '--%s' is ambiguous; possibilities: %s", name, strings.Join(names, " "))
}

// lookup returns the options of the command, and of those above it, that match.
func (l *line) lookup(match func(*pflag.Flag) bool) []*pflag.Flag {
	l.cmd.InitDefaultHelpFlag()
	var found []*pflag.Flag
	for _, set := range []*pflag.FlagSet{l.cmd.LocalFlags(), l.cmd.InheritedFlags()} {
		set.VisitAll(func(f *pflag.Flag) {
			if match(f) && !slices.Contains(found, f) {
				found = append(found, f)
			}
		})
	}
	return found
}
