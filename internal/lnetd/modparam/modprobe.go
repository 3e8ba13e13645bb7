package modparam

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// An option is one NAME=VALUE of an "options" command. The field line is the line on which the command begins.
type option struct {
	module, name, value string
	line                int
}

// otherCommands holds the commands of modprobe files that set no parameters. They are ignored.
var otherCommands = []string{"alias", "blacklist", "config", "include", "install", "remove", "softdep", "weakdep"}

const blanks = " \t\r\v\f"

// modprobeOptions returns the options of all modules in a modprobe file, in order. It adds problems to bad.
func modprobeOptions(data []byte, bad *findings) []option {
	var all []option
	for line, text := range logicalLines(data) {
		all = append(all, optionsOf(text, line, bad)...)
	}
	return all
}

// logicalLines yields the lines of data with their numbers. If a line ends in a backslash, it is joined with
// the next one.
func logicalLines(data []byte) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		first := 0
		var text strings.Builder
		for k, part := range bytes.Split(data, []byte("\n")) {
			if first == 0 {
				first = k + 1
			}
			s, more := strings.CutSuffix(strings.TrimSuffix(string(part), "\r"), `\`)
			text.WriteString(s)
			if more {
				continue
			}
			if !yield(first, text.String()) {
				return
			}
			first = 0
			text.Reset()
		}
		if first != 0 {
			yield(first, text.String())
		}
	}
}

// optionsOf returns the options that a line of a modprobe file sets. It adds problems to bad.
func optionsOf(text string, line int, bad *findings) []option {
	text = strings.Trim(text, blanks)
	if text == "" || text[0] == '#' {
		return nil
	}
	command, rest := cutWord(text)
	switch {
	case slices.Contains(otherCommands, command):
		return nil
	case command != "options":
		bad.add(line, "'%s' is not a keyword of modprobe files; parameters are set with 'options MODULE NAME=VALUE ...'", command)
		return nil
	}
	module, rest := cutWord(rest)
	if module == "" || strings.Contains(module, "=") {
		bad.add(line, "'options' without a module: write 'options lnet NAME=VALUE ...'")
		return nil
	}
	module = strings.ReplaceAll(module, "-", "_")
	all, err := assignments(rest)
	if _, ours := modules[module]; err != nil && ours { // other modules may have options without a value
		bad.add(line, "%v", err)
	}
	for k := range all {
		all[k].module, all[k].line = module, line
	}
	return all
}

func cutWord(s string) (word, rest string) {
	s = strings.TrimLeft(s, blanks)
	if end := strings.IndexAny(s, blanks); end >= 0 {
		return s[:end], s[end:]
	}
	return s, ""
}

// assignments parses a list of NAME=VALUE. A value that contains blanks must be in quotes, or the whole
// assignment must be. Single quotes around several assignments are ignored, because they may come from a shell
// command.
func assignments(s string) ([]option, error) {
	var all []option
	for {
		s = strings.TrimLeft(s, blanks)
		if s == "" {
			return all, nil
		}
		word, rest, err := quoted(s)
		if err != nil {
			return all, err
		}
		if s[0] == '\'' && word != "" {
			more, err := assignments(word)
			all = append(all, more...)
			if err != nil {
				return all, err
			}
			s = rest
			continue
		}
		name, value, found := strings.Cut(word, "=")
		if !found {
			return all, fmt.Errorf("'%s' is not of the form NAME=VALUE; put quotes around a value with spaces", word)
		}
		if value != "" && (value[0] == '"' || value[0] == '\'') {
			value = value[1 : len(value)-1]
		}
		all = append(all, option{name: strings.ReplaceAll(name, "-", "_"), value: value})
		s = rest
	}
}

// quoted returns the first word of s and the rest. The string s must not begin with a blank. Blanks within
// quotes do not end the word. Quotes around the whole word are removed; quotes around a value after "=" stay.
func quoted(s string) (word, rest string, err error) {
	if s[0] == '"' || s[0] == '\'' {
		end := strings.IndexByte(s[1:], s[0])
		if end < 0 {
			return "", "", fmt.Errorf("the closing quote in %s is missing", cutShort(s))
		}
		return s[1 : 1+end], s[2+end:], nil
	}
	word, _ = cutWord(s)
	value := strings.IndexByte(word, '=') + 1
	if value == 0 || value == len(word) || word[value] != '"' && word[value] != '\'' {
		return word, s[len(word):], nil
	}
	end := strings.IndexByte(s[value+1:], s[value])
	if end < 0 {
		return "", "", fmt.Errorf("the closing quote in %s is missing", cutShort(s))
	}
	end += value + 2
	if more, _ := cutWord(s[end:]); end < len(s) && !strings.ContainsRune(blanks, rune(s[end])) {
		return "", "", fmt.Errorf("the space between the quoted value of %[2]s and '%[1]s' is missing", more, s[:value-1])
	}
	return s[:end], s[end:], nil
}

// cutShort returns s in quotes, without the part after 40 bytes.
func cutShort(s string) string {
	if len(s) > 40 {
		return fmt.Sprintf("%q...", s[:40])
	}
	return fmt.Sprintf("%q", s)
}
