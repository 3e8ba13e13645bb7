package main

import (
	"strings"
	"testing"
)

// TestSettle: given two documents that differ in their time and in the hash of the tool that wrote
// them, when they are settled, then they are equal, and everything else is still there.
func TestSettle(t *testing.T) {
	const document = `{"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": {"timestamp": "TIME",
		"tools": [{"vendor": "v", "name": "n", "hashes": [{"alg": "MD5", "content": "HASH"}]}]},
		"components": [{"type": "library", "name": "m", "version": "v1.0.0", "purl": "pkg:golang/m@v1.0.0"}]}`
	settled := func(time, hash string) string {
		var out strings.Builder
		in := strings.NewReader(strings.NewReplacer("TIME", time, "HASH", hash).Replace(document))
		if err := normalize(in, &out, "1790000000"); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	one := settled("2026-01-01T00:00:00Z", "01234567")
	if other := settled("2026-01-02T00:00:00Z", "89abcdef"); one != other {
		t.Errorf("%s\n%s", one, other)
	}
	for _, want := range []string{`"specVersion": "1.5"`, `"timestamp": "2026-09-21T14:13:20Z"`, `"pkg:golang/m@v1.0.0"`, `"vendor": "v"`} {
		if !strings.Contains(one, want) {
			t.Errorf("there is no %s in\n%s", want, one)
		}
	}
	if strings.Contains(one, "hashes") {
		t.Errorf("there are hashes in\n%s", one)
	}
}

func TestSettleFaults(t *testing.T) {
	for _, tt := range []struct{ document, epoch, want string }{
		{"{}", "", "SOURCE_DATE_EPOCH"},
		{"<bom/>", "1", "invalid character"},
		{`{"bomFormat": "CycloneDX", "specVersion": "1.5"}`, "1", "has no metadata"},
	} {
		if err := normalize(strings.NewReader(tt.document), &strings.Builder{}, tt.epoch); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.document, err, tt.want)
		}
	}
}
