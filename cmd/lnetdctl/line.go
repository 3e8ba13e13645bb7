package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lnetd/lnetd/cmd/internal/cli"
	"github.com/lnetd/lnetd/internal/lnetd/spelling"
)

// line is a parsed command line.
type line struct {
	// cmd is the command, or the last group of commands that was named.
	cmd *cobra.Command
	// args holds the arguments in the form that cobra can parse: with complete names of options, to
	// which the values are attached.
	args []string
	// cut is set if names of commands may be abbreviated, in upper or lower case.
	cut bool
	// word is one of the words that all groups of commands accept, or empty if the line does not
	// contain any of them. dashed reports whether it was given with dashes, as in "--list-commands".
	word   string
	dashed bool
	// help reports whether the command's help was requested.
	help bool
}

// Words that all groups of commands accept, with and without dashes (lnetctl 1.2).
const (
	wordHelp    = "help"
	wordVersion = "version"
	wordList    = "list-commands"
	wordQuit    = "quit"
	wordExit    = "exit"
	wordIgnore  = "ignore_errors"
)

// helpSucceeds is the annotation of commands for which the exit status of --help is 0.
const helpSucceeds = "help-succeeds"

// instead reports whether the line asks for help with an option such as --help instead of the work of a command.
// The exit status is not 0 then, as in lnetctl. For the word "help" before a command, instead returns false.
func (l *line) instead() bool {
	if l.cmd.Parent() == nil || l.cmd.Name() == lstName {
		return false
	}
	_, helps := l.cmd.Annotations[helpSucceeds]
	return (l.help || l.dashed) && !helps
}

// unknownCommand is the error of a word that is not the name of a command. If it is an ambiguous abbreviation,
// the field like has the commands that it may stand for. The field meant has the most similar command of the group, with
// the names of the groups, or is empty.
type unknownCommand struct {
	name, program string
	like          []string
	meant         string
}

func (e *unknownCommand) Error() string {
	if len(e.like) > 0 {
		return fmt.Sprintf("'%s' is ambiguous: it may be %s", e.name, strings.Join(e.like, ", "))
	}
	return fmt.Sprintf("'%s' is not a valid command. See '%s --list-commands'.", e.name, e.program)
}

// optionalLevel is the annotation of options with an optional value. The value is the next argument if that is
// a number without a sign (lnetctl 4.4).
const optionalLevel = "optional-level"

// numberOperand is the annotation of commands whose operand is a number, which may be negative.
const numberOperand = "number-operand"

// readLine parses a command line like getopt_long: options may be in any position, their long names may be
// abbreviated, and values may be attached or separate. If cut is set, names of commands may be abbreviated too.
// If readLine returns an error, the line contains what was parsed before the error.
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

// joinLists joins the value of an option that ends with a comma and the next argument, so that lists may have
// spaces after commas, as in the Multi-Rail design document.
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

// otherNames maps alternative names of options to the names of the options.
var otherNames = map[string]string{"ip2nets": "ip2net"}

// takesNumber reports whether the argument a is a negative number and the command has a number as its operand,
// so that a is an operand and not an option.
func (l *line) takesNumber(a string) bool {
	_, takes := l.cmd.Annotations[numberOperand]
	_, ok := parseNumber(a)
	return takes && ok
}

// commonWord records a word that all groups of commands accept. It returns false for other words, and if the
// command is not a group.
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

// command handles a word that should be the name of a command in the present group.
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
	unknown := &unknownCommand{name: name, program: l.cmd.Root().Name(), like: like}
	if len(like) == 0 {
		unknown.meant = meantCommand(l.cmd, name)
	}
	return unknown
}

// meantCommand returns the command line of the subcommand of the group whose name is most similar to name. If none is
// similar, but just one other group has a subcommand with the name, as in "lnetdctl show_session", it returns that.
// Otherwise it returns "".
func meantCommand(group *cobra.Command, name string) string {
	var names []string
	for _, c := range cli.Visible(group) {
		names = append(names, c.Name())
	}
	if like := spelling.Nearest(name, names); like != "" {
		return group.CommandPath() + " " + like
	}
	var elsewhere []string
	for _, c := range cli.Visible(group.Root()) {
		for _, below := range cli.Visible(c) {
			if below.Name() == name {
				elsewhere = append(elsewhere, below.CommandPath())
			}
		}
	}
	if len(elsewhere) == 1 {
		return elsewhere[0]
	}
	return ""
}

// unknownOption is the error of an option that does not exist. The field meant has the most similar option of the
// command, without dashes, or is empty.
type unknownOption struct{ name, meant string }

func (e *unknownOption) Error() string { return fmt.Sprintf("unrecognized option '--%s'", e.name) }

// meant returns what the user probably meant with a command line that has the error err, as a question. It returns "" if
// that is not known.
func meant(err error) string {
	var command *unknownCommand
	var option *unknownOption
	like := ""
	switch {
	case errors.As(err, &command):
		like = command.meant
	case errors.As(err, &option) && option.meant != "":
		like = "--" + option.meant
	}
	return spelling.DidYouMean(like)
}

// helpFor handles the names after the word "help", which name the command to explain.
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

// long parses a long option without its dashes, "name" or "name=value". The function next returns the next
// argument. The result used reports whether that was the option's value.
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

// short parses one or more short options in one argument, without the dash. The last one may have a value. The
// function next returns the next argument, and used reports whether that was the value.
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

// option handles an option whose name has been parsed. In messages its name is shown. If attached is set, value
// is the option's value. Otherwise the value may be the next argument, and option reports whether it was.
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

// find returns the option with the given name, or the only option whose name begins with it.
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
		var names []string
		l.lookup(func(f *pflag.Flag) bool { names = append(names, f.Name); return false })
		return nil, &unknownOption{name, spelling.Nearest(name, names)}
	case 1:
		return fs[0], nil
	}
	var names []string
	for _, f := range fs {
		names = append(names, "'--"+f.Name+"'")
	}
	return nil, fmt.Errorf("option '--%s' is ambiguous; possibilities: %s", name, strings.Join(names, " "))
}

// lookup returns those options of the command and its parents for which match returns true.
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
