package config

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/lnetd/lnetd/internal/lnetd/spelling"
)

// syntaxProblem is the most likely reason why a text is not valid YAML.
type syntaxProblem struct {
	line, column int
	text, remedy string
}

// findSyntaxProblem searches a text that is not valid YAML for common mistakes, and returns the first one
// or nil. It takes the known keys from top, the form of a document.
func findSyntaxProblem(text string, top *shape) *syntaxProblem {
	d := &syntaxScanner{keys: map[string]bool{}}
	top.walk(func(key string) { d.keys[spelling.Plain(key)] = true })
	for k, line := range strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n") {
		d.number = k + 1
		if d.line(strings.TrimRight(line, "\r")); d.found != nil {
			return d.found
		}
	}
	d.unclosed()
	return d.found
}

// walk calls f for every key of the mapping and of the mappings within it.
func (s *shape) walk(f func(key string)) {
	for key, one := range s.keys {
		f(key)
		if below := shapeOf(one); below != nil {
			below.walk(f)
		}
	}
}

// syntaxScanner scans the lines of a document for mistakes. It knows only the common parts of YAML.
type syntaxScanner struct {
	keys         map[string]bool // known keys, as spelling.Plain returns them
	number       int             // number of the current line
	found        *syntaxProblem  // the first mistake, or nil
	open         []bracket       // open brackets, outermost first
	quote        rune            // the open quote, or 0
	quoteAt      bracket         // the position of the open quote
	escaped      bool            // the next character follows a backslash in double quotes
	levels       []int           // columns of the mappings and lists that the line is in, outermost first
	valueFollows bool            // the last line ends with a key or dash, so that its value is on the next lines
	literal      int             // column of the key whose value is a text block that the scanner is in, or -1
	started      bool            // literal is valid
}

// bracket is an open bracket or quote with its position.
type bracket struct {
	is           rune
	line, column int
}

var closing = map[rune]rune{'{': '}', '[': ']'}

func (d *syntaxScanner) record(column int, remedy, format string, args ...any) {
	if d.found == nil {
		d.found = &syntaxProblem{line: d.number, column: column, text: fmt.Sprintf(format, args...), remedy: remedy}
	}
}

// unclosed reports the quote that is open or, if no quote is, the innermost open bracket.
func (d *syntaxScanner) unclosed() {
	switch {
	case d.quote != 0:
		d.number = d.quoteAt.line
		d.record(d.quoteAt.column, "add the closing quote", "the closing quote %c is missing", d.quote)
	case len(d.open) > 0:
		last := d.open[len(d.open)-1]
		d.number = last.line
		d.record(last.column, fmt.Sprintf("write %c at the end of the list or mapping", closing[last.is]), "the bracket %c is not closed", last.is)
	}
}

func (d *syntaxScanner) line(line string) {
	d.escaped = false
	content := strings.TrimLeft(line, " \t")
	if len(d.open) > 0 || d.quote != 0 {
		m := keyPattern.FindStringSubmatch(content)
		if len(m) > 1 && d.keys[spelling.Plain(m[1])] && (d.quote != 0 || content == line) {
			d.unclosed() // a new key begins, so the value before it was not closed
			return
		}
		d.scan(content, len(line)-len(content))
		return
	}
	indent := len(line) - len(content)
	if d.started && d.literal >= 0 && indent > d.literal {
		return
	}
	d.literal, d.started = -1, true
	switch {
	case content == "" || content[0] == '#':
		return
	case strings.HasPrefix(line, "---") || strings.HasPrefix(line, "..."):
		d.levels, d.valueFollows = nil, false
		return
	}
	if tab := strings.IndexByte(line[:indent], '\t'); tab >= 0 {
		d.record(tab+1, "indent with spaces only", "the indentation contains a tab")
		return
	}
	for content == "-" || strings.HasPrefix(content, "- ") || strings.HasPrefix(content, "-\t") {
		d.level(indent, true)
		rest := strings.TrimLeft(content[1:], " ")
		if strings.HasPrefix(rest, "\t") {
			d.record(indent+2, "indent with spaces only", "a tab follows '-'")
			return
		}
		d.valueFollows = true
		indent += len(content) - len(rest)
		content = rest
	}
	if content != "" && content[0] != '#' {
		d.content(content, indent)
	}
}

// keyPattern matches a key with its colon and the value after it.
var keyPattern = regexp.MustCompile(`^("[^"]*"|'[^']*'|[^"'\[\]{}#&*!|>%@,][^#]*?)\s*:(?:[ \t]+(.*))?$`)

// content checks the part of a line after the indentation and dashes. The indent is its column, counted
// from 0.
func (d *syntaxScanner) content(content string, indent int) {
	m := keyPattern.FindStringSubmatchIndex(content)
	if m == nil {
		d.checkKeyless(content, indent)
		d.scan(content, indent)
		d.valueFollows = false
		return
	}
	d.level(indent, false)
	value, at := "", len(content)
	if m[4] >= 0 {
		value, at = content[m[4]:m[5]], m[4]
	}
	if value != "" && strings.ContainsRune("&!", rune(value[0])) { // an anchor or a tag
		word, rest, _ := strings.Cut(value, " ")
		value, at = rest, at+len(word)+1
	}
	d.valueFollows = value == "" || value[0] == '#'
	if strings.HasPrefix(value, "|") || strings.HasPrefix(value, ">") {
		d.literal = indent
		return
	}
	if k := strings.Index(value, ": "); k >= 0 && !strings.ContainsAny(value[:1], `"'{[#`) && !strings.Contains(value[:k], " #") {
		d.record(indent+at+k+1, "write each 'key: value' on a separate line, or put quotes around the value", "the line contains a second colon")
		return
	}
	d.scan(value, indent+at)
}

// checkKeyless checks a line without a key.
func (d *syntaxScanner) checkKeyless(content string, indent int) {
	before, after, colon := strings.Cut(content, ":")
	word := strings.TrimSpace(before)
	switch {
	case colon && after != "" && d.keys[spelling.Plain(word)]:
		d.record(indent+len(before)+1, fmt.Sprintf("write '%s: %s'", word, strings.TrimSpace(after)), "the space after the colon is missing")
	case !colon:
		for k := len(content); k > 0; k = strings.LastIndexByte(content[:k], ' ') {
			if k > spelling.LongestWord { // longer than any key
				k = spelling.LongestWord + 1
				continue
			}
			if name := content[:k]; d.keys[spelling.Plain(name)] {
				d.record(indent+k, fmt.Sprintf("write '%s:%s'", name, content[k:]), "the colon after '%s' is missing", name)
				return
			}
		}
	}
}

// level records that a key or, if isList is set, a dash is at a column. It opens a mapping or list there,
// closes deeper ones, or reports that nothing may begin at that column.
func (d *syntaxScanner) level(column int, isList bool) {
	deeper := -1
	for len(d.levels) > 0 && d.levels[len(d.levels)-1] > column {
		deeper = d.levels[len(d.levels)-1]
		d.levels = d.levels[:len(d.levels)-1]
	}
	switch {
	case len(d.levels) > 0 && d.levels[len(d.levels)-1] == column:
	case deeper >= 0:
		d.reportIndent(column, deeper)
	case !d.valueFollows && len(d.levels) > 0:
		d.record(column+1, fmt.Sprintf("indent it by %d spaces, like the lines before it", d.levels[len(d.levels)-1]),
			"the line is indented by %d spaces, but the line above it already has a value", column)
	default:
		d.levels = append(d.levels, column)
	}
	d.valueFollows = isList
}

// reportIndent reports a line that is indented unlike any line before it. It suggests the next column to
// the left that is permitted, and deeper, the next one to the right.
func (d *syntaxScanner) reportIndent(column, deeper int) {
	if len(d.levels) == 0 {
		d.record(column+1, fmt.Sprintf("indent it by %d spaces, like the lines before it", deeper),
			"the line is indented by %d spaces, unlike any line before it", column)
		return
	}
	d.record(column+1, fmt.Sprintf("indent it by %d or %d spaces, like the lines that it belongs to", d.levels[len(d.levels)-1], deeper),
		"the line is indented by %d spaces, unlike any line before it", column)
}

// scan tracks quotes and brackets in s, the rest of a line, which begins at a column.
func (d *syntaxScanner) scan(s string, column int) {
	fresh, closed := true, false // fresh: a value may begin here; closed: a value in brackets has ended
	for k, c := range s {
		at := column + k + 1
		switch {
		case d.quote != 0:
			d.quoted(c, at)
			continue
		case c == ' ' || c == '\t':
			fresh = fresh || len(d.open) > 0 && k > 0 && strings.ContainsRune(":,", rune(s[k-1]))
			continue
		case c == '#' && (k == 0 || s[k-1] == ' ' || s[k-1] == '\t'):
			return
		case closed:
			d.record(at, "put quotes around the whole value", "'%s' follows a closing bracket", s[k:])
			return
		case fresh && (c == '"' || c == '\''):
			d.quote, d.quoteAt = c, bracket{c, d.number, at}
		case fresh && strings.ContainsRune("*@`%", c) && !anchored(s[k:]):
			d.record(at, "put quotes around the value", "the value begins with '%c'", c)
		case fresh && closing[c] != 0:
			d.open = append(d.open, bracket{c, d.number, at})
			continue
		case len(d.open) > 0:
			if closed = d.bracket(c, at); d.found != nil {
				return
			}
			fresh = strings.ContainsRune("{[,", c)
			continue
		}
		fresh = false
	}
}

// escapes holds the characters that may follow a backslash in double quotes.
const escapes = "0abt\tnvfre \"/\\N_LPxuU"

// quoted handles the character c within quotes, at the column at.
func (d *syntaxScanner) quoted(c rune, at int) {
	switch {
	case d.escaped:
		d.escaped = false
		if !strings.ContainsRune(escapes, c) {
			d.record(at-1, `write '\\' for a backslash, or put single quotes around the value`, `'\%c' in double quotes`, c)
		}
	case d.quote == '"' && c == '\\':
		d.escaped = true
	case c == d.quote:
		d.quote = 0
	}
}

// anchored reports whether a text that begins with '*' is a YAML alias.
func anchored(s string) bool { return aliased.MatchString(s) }

var aliased = regexp.MustCompile(`^\*[0-9A-Za-z_-]+\s*([,}\]#]|$)`)

// bracket handles the character c within brackets, at the column at. It reports whether c closes the
// outermost bracket.
func (d *syntaxScanner) bracket(c rune, at int) (closed bool) {
	last := d.open[len(d.open)-1]
	switch c {
	case '[', '{':
		d.record(at, "put quotes around the value", "the bracket %c is inside a value within brackets", c)
	case ']', '}':
		if c != closing[last.is] {
			d.record(at, fmt.Sprintf("close %c of line %d, column %d, with %c", last.is, last.line, last.column, closing[last.is]),
				"the closing bracket %c has no opening bracket", c)
		}
		d.open = d.open[:len(d.open)-1]
	}
	return len(d.open) == 0
}
