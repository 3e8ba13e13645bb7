package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
)

// Severity says how much a finding matters.
type Severity string

// The severities, the least important one first.
const (
	// Notice is for what is unusual and may be intended.
	Notice Severity = "notice"
	// Warning is for what works less well than it should, or only partly.
	Warning Severity = "warning"
	// Error is for what does not work.
	Error Severity = "error"
)

// rank returns a number that is greater for severities that matter more.
func (s Severity) rank() int { return slices.Index([]Severity{Notice, Warning, Error}, s) }

// Finding is one thing that is wrong.
type Finding struct {
	// Code identifies the kind of finding, such as "LNET201". Codes do not change between releases.
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	// Title says what is wrong in a few words. It is the same for all findings of the kind.
	Title string `json:"title"`
	// Subject is the name of the object that the finding is about: a NID, an interface, a path.
	Subject string `json:"subject"`
	// Evidence is what was observed.
	Evidence string `json:"evidence"`
	// Remedy is what the operator can do.
	Remedy string `json:"remedy"`
	// Page is the address of the documentation of the kind.
	Page string `json:"page"`
}

// find returns a finding of a kind of the table.
func find(code Code, subject, evidence, remedy string) Finding {
	k := KindOf(code)
	return Finding{
		Code: code, Severity: k.Severity, Title: k.Title, Subject: subject, Evidence: evidence,
		Remedy: cmp.Or(remedy, k.Remedy), Page: k.Page(),
	}
}

// Worst returns the greatest severity among findings. It returns "" if there are none.
func Worst(findings []Finding) (worst Severity) {
	for k := range findings {
		if s := findings[k].Severity; worst == "" || s.rank() > worst.rank() {
			worst = s
		}
	}
	return worst
}

// perCode is the maximum number of findings with the same code that Examine returns. If there are more, the last
// one says how many.
const perCode = 8

// Examine returns what is wrong, the most important finding first.
func Examine(f *Facts) []Finding {
	findings := []Finding{}
	for _, check := range checks {
		findings = append(findings, check(f)...)
	}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(b.Severity.rank()-a.Severity.rank(), cmp.Compare(a.Code, b.Code))
	})
	return limited(findings)
}

// limited returns findings without those that exceed perCode. The findings are grouped by code.
func limited(findings []Finding) []Finding {
	out := findings[:0:0]
	for len(findings) > 0 {
		n := 1
		for n < len(findings) && findings[n].Code == findings[0].Code {
			n++
		}
		group := findings[:n]
		findings = findings[n:]
		if n > perCode {
			more := group[perCode-1]
			more.Subject = fmt.Sprintf("%d more", n-perCode+1)
			more.Evidence = "such as " + group[perCode-1].Subject + ": " + more.Evidence
			group = append(slices.Clone(group[:perCode-1]), more)
		}
		out = append(out, group...)
	}
	return out
}
