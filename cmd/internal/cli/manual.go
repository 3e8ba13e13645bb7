package cli

import (
	"bytes"
	"fmt"
	"strings"
)

// Manual is a manual page for man(1), which is built from the texts of --help.
type Manual struct{ b bytes.Buffer }

// NewManual returns a manual page name(section) that has only its title.
func NewManual(name string, section int) *Manual {
	m := &Manual{}
	m.b.WriteString(".\\\" Made from the texts of --help by \"make man\".\n")
	fmt.Fprintf(&m.b, ".TH %s %d \"\" lnetd \"lnetd manual\"\n", strings.ToUpper(name), section)
	m.b.WriteString(".nh\n.ad l\n") // do not hyphenate option names and NIDs
	return m
}

// Bytes returns the page as troff source.
func (m *Manual) Bytes() []byte { return m.b.Bytes() }

// Section begins a section of the page.
func (m *Manual) Section(title string) { m.title(".SH", title) }

// Subsection begins a subsection of the page.
func (m *Manual) Subsection(title string) { m.title(".SS", title) }

func (m *Manual) title(macro, title string) {
	fmt.Fprintf(&m.b, "%s \"%s\"\n", macro, escape(title))
}

// Text adds text to the page. Empty lines separate its paragraphs. A paragraph in which each line has a name, at
// least two spaces and a description becomes a list. An indented paragraph keeps its lines.
func (m *Manual) Text(text string) {
	for block := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		lines := strings.Split(strings.Trim(block, "\n"), "\n")
		switch {
		case block == "":
		case m.list(lines):
		case indented(lines):
			m.Literal(block)
		default:
			m.b.WriteString(".PP\n")
			m.lines(lines)
		}
	}
}

// Literal adds text to the page whose lines are kept as they are.
func (m *Manual) Literal(text string) {
	m.b.WriteString(".PP\n.RS 4\n.nf\n")
	for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		if line == "" { // an empty line would be a troff request
			m.b.WriteString(".sp\n")
			continue
		}
		m.lines([]string{line})
	}
	m.b.WriteString(".fi\n.RE\n")
}

// Help adds a text of --help to the page. Lines that are not indented are titles of sections. For each section
// that is not empty, Help calls begin with the title, and adds the section's text. In the sections named in
// literal, lines are kept as they are.
func (m *Manual) Help(text string, begin func(title string), literal ...string) {
	title, body := "", ""
	flush := func() {
		if strings.TrimSpace(body) == "" {
			return
		}
		begin(title)
		for _, name := range literal {
			if name == title {
				m.Literal(body)
				return
			}
		}
		m.Text(body)
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" && line[0] != ' ' {
			flush()
			title, body = line, ""
			continue
		}
		body += strings.TrimPrefix(line, "    ") + "\n"
	}
	flush()
}

// list adds lines to the page as a list. If they do not have the form of a list (see Text), it adds nothing and
// returns false.
func (m *Manual) list(lines []string) bool {
	type item struct{ name, text string }
	var items []item
	for _, line := range lines {
		trimmed := strings.TrimSpace(line)
		name, text, ok := strings.Cut(trimmed, "  ")
		switch {
		case ok && len(line)-len(trimmed) < 8:
			items = append(items, item{name, strings.TrimSpace(text)})
		case len(line)-len(trimmed) >= 4 && len(items) > 0: // a continuation line
			items[len(items)-1].text += "\n" + trimmed
		default:
			return false
		}
	}
	for _, i := range items {
		fmt.Fprintf(&m.b, ".TP\n.B \"%s\"\n", escape(i.name))
		m.lines(strings.Split(i.text, "\n"))
	}
	return true
}

func indented(lines []string) bool {
	for _, line := range lines {
		if strings.HasPrefix(line, " ") {
			return true
		}
	}
	return false
}

// lines adds lines to the page. It escapes those that troff would take for requests.
func (m *Manual) lines(lines []string) {
	for _, line := range lines {
		line = escape(line)
		if strings.HasPrefix(line, ".") {
			line = `\&` + line
		}
		m.b.WriteString(line + "\n")
	}
}

// escape returns s in a form in which troff prints every character unchanged.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, `"`, `\(dq`).Replace(s)
}
