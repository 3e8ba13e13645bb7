package main

import (
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// page is a page with the name of its first function. Its functions stand in it in the order of the header.
type page struct {
	title     string
	functions []string
	also      []string // other pages
}

// overview is the name of the page that describes the library.
const overview = "lnetd"

var pages = []page{
	{title: "a connection to lnetd", functions: []string{
		"lnetd_open", "lnetd_close", "lnetd_fd", "lnetd_process", "lnetd_reopen", "lnetd_ping", "lnetd_set_patience", "lnetd_set_spin",
	}, also: []string{"lnetd_text", "lnetd_limits", "lnetd_wait"}},
	{title: "texts of errors", functions: []string{"lnetd_text", "lnetd_strerror"}},
	{title: "quotas and NIDs", functions: []string{"lnetd_limits", "lnetd_nids"}, also: []string{"lnetd_open", "lnetd_nid_parse"}},
	{title: "memory that lnetd can access", functions: []string{"lnetd_alloc", "lnetd_adopt", "lnetd_free"}, also: []string{"lnetd_register", "lnetd_limits"}},
	{title: "buffers", functions: []string{
		"lnetd_register", "lnetd_deregister", "lnetd_buf_size", "lnetd_buf_data", "lnetd_at",
	}, also: []string{"lnetd_alloc", "lnetd_send", "lnetd_offer"}},
	{title: "transfer machines", functions: []string{"lnetd_tm_start", "lnetd_tm_stop", "lnetd_tm_addr"}, also: []string{"lnetd_send", "lnetd_wait"}},
	{title: "messages, and the end of operations", functions: []string{
		"lnetd_send", "lnetd_recv", "lnetd_cancel", "lnetd_sync",
	}, also: []string{"lnetd_begin", "lnetd_offer", "lnetd_wait", "lnetd_register"}},
	{title: "batches of operations", functions: []string{"lnetd_begin", "lnetd_commit"}, also: []string{"lnetd_send", "lnetd_offer", "lnetd_wait"}},
	{title: "bulk data", functions: []string{
		"lnetd_offer", "lnetd_offer_bits", "lnetd_move", "lnetd_move_bits",
	}, also: []string{"lnetd_send", "lnetd_wait", "lnetd_register"}},
	{title: "events", functions: []string{
		"lnetd_wait", "lnetd_events", "lnetd_pending", "lnetd_tm_fd", "lnetd_tm_arm",
	}, also: []string{"lnetd_send", "lnetd_offer", "lnetd_open", "poll(2)", "epoll(7)"}},
	{title: "texts of NIDs and addresses", functions: []string{
		"lnetd_nid_parse", "lnetd_nid_print", "lnetd_addr_parse", "lnetd_addr_print",
	}, also: []string{"lnetd_tm_start", "lnetd_send"}},
}

//go:embed text/*.man examples/*.c
var files embed.FS

// write returns the files of the manual by their names.
func write(header string) (map[string]string, error) {
	all, err := functions(header)
	if err != nil {
		return nil, err
	}
	manual := map[string]string{}
	known := 0
	var names []string
	for _, p := range pages {
		var of []function
		for _, f := range all {
			if slices.Contains(p.functions, f.name) {
				of = append(of, f)
			}
		}
		if len(of) != len(p.functions) {
			return nil, fmt.Errorf("of %q, only %d are functions of the header", p.functions, len(of))
		}
		known += len(of)
		names = append(names, p.functions[0]+"(3)")
		manual[p.functions[0]+".3"] = p.render(of)
		for _, f := range p.functions[1:] {
			manual[f+".3"] = ".so man3/" + p.functions[0] + ".3\n"
		}
	}
	if known != len(all) {
		return nil, fmt.Errorf("the header has %d functions, and pages have %d: add the others to a page", len(all), known)
	}
	slices.Sort(names)
	var b strings.Builder
	b.WriteString(head(overview))
	b.WriteString(extra(overview))
	also(&b, names)
	manual[overview+".3"] = b.String()
	return manual, nil
}

func head(name string) string {
	return fmt.Sprintf(".TH %s 3 \"\" lnetd \"liblnetd manual\"\n.nh\n.ad l\n", strings.ToUpper(name))
}

// extra returns what stands in files about a page: text, and an example.
func extra(name string) string {
	var b strings.Builder
	if text, err := files.ReadFile("text/" + name + ".man"); err == nil {
		b.Write(text)
	}
	if code, err := files.ReadFile("examples/" + name + ".c"); err == nil {
		b.WriteString(".SH EXAMPLES\n")
		source(&b, string(code))
	}
	return b.String()
}

func (p *page) render(functions []function) string {
	var b strings.Builder
	name := p.functions[0]
	b.WriteString(head(name))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.nf\n.B #include <lnetd.h>\n", strings.Join(p.functions, ", "), p.title)
	for _, f := range functions {
		b.WriteString(".PP\n")
		for line := range strings.SplitSeq(f.prototype, "\n") {
			fmt.Fprintf(&b, ".B %s\n", verbatim(strings.ReplaceAll(line, "\t", "        ")))
		}
	}
	b.WriteString(".fi\n.PP\nCompile with $(pkg\\-config \\-\\-cflags \\-\\-libs lnetd).\n.SH DESCRIPTION\n")
	var errors strings.Builder
	for _, f := range functions {
		for _, t := range f.types {
			prose(&b, &errors, "", t.comment)
			if t.code != "" {
				source(&b, t.code)
			}
		}
		prose(&b, &errors, f.name, f.comment)
	}
	b.WriteString(".SH RETURN VALUE\nFunctions that return int return 0 or more as described, or a negative errno.\n.BR lnetd_text (3)\nis the reason in words.\n")
	if errors.Len() > 0 {
		b.WriteString(".SH ERRORS\n" + errors.String())
	}
	b.WriteString(extra(name))
	others := []string{overview + "(3)"}
	for _, o := range p.also {
		if !strings.Contains(o, "(") {
			o += "(3)"
		}
		others = append(others, o)
	}
	also(&b, others)
	return b.String()
}

var (
	errorsAre = regexp.MustCompile(`(?:^|[.)] )((?:Further e|E)rrors(?: of all)?): (.*)$`)
	nextError = regexp.MustCompile(`; (-E|those of)`)
	call      = regexp.MustCompile(`\b(lnetd_\w+)\(\)`)
)

// prose writes paragraphs, and the errors that they list to the section ERRORS.
func prose(b, errors *strings.Builder, function string, paragraphs []string) {
	for _, p := range paragraphs {
		if at := errorsAre.FindStringSubmatchIndex(p); at != nil {
			listErrors(errors, function, p[at[2]:at[3]], p[at[4]:at[5]])
			p = strings.TrimSpace(p[:at[2]])
		}
		if p != "" {
			fmt.Fprintf(b, ".PP\n%s\n", text(p))
		}
	}
}

// listErrors writes a list of errors: "-EBUSY: it has an operation; -EINVAL, -ENOENT".
func listErrors(b *strings.Builder, function, title, list string) {
	switch {
	case function == "":
		b.WriteString(".PP\nOf all functions:\n")
	case strings.HasPrefix(title, "Further"):
		fmt.Fprintf(b, ".PP\nOf\n.BR %s (3),\nin addition:\n", function)
	default:
		fmt.Fprintf(b, ".PP\nOf\n.BR %s (3):\n", function)
	}
	for e := range strings.SplitSeq(nextError.ReplaceAllString(strings.TrimSuffix(list, "."), "\n$1"), "\n") {
		name, meaning, found := strings.Cut(e, ": ")
		if !found || strings.HasPrefix(e, "those of") {
			name, meaning = "others", e
			if strings.HasPrefix(e, "-E") {
				name, meaning = e, ""
			}
		}
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", verbatim(name), text(meaning))
	}
}

// text formats a paragraph, with functions of the library in bold.
func text(s string) string {
	s = call.ReplaceAllString(verbatim(s), `\fB$1\fP(3)`)
	return s
}

var escape = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

// verbatim escapes what groff would change.
func verbatim(s string) string {
	s = escape.Replace(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	return s
}

// source writes lines of C as they are.
func source(b *strings.Builder, code string) {
	b.WriteString(".PP\n.in +4n\n.nf\n")
	for line := range strings.Lines(code) {
		b.WriteString(verbatim(strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "    ")) + "\n")
	}
	b.WriteString(".fi\n.in\n")
}

// also writes the section SEE ALSO.
func also(b *strings.Builder, pages []string) {
	b.WriteString(".SH SEE ALSO\n")
	for k, p := range pages {
		name, section, _ := strings.Cut(p, "(")
		comma := ","
		if k == len(pages)-1 {
			comma = ""
		}
		fmt.Fprintf(b, ".BR %s (%s%s\n", name, section, comma)
	}
}
