package spelling

import "strings"

// Nearest returns the element of words that is most similar to word, which is probably a misspelling of it. It
// returns "" if no element is similar enough. Case, blanks, "_" and "-" are ignored.
func Nearest(word string, words []string) string {
	if len(word) > LongestWord {
		return ""
	}
	best, least := "", len(word)
	plain := Plain(word)
	for _, w := range words {
		known := Plain(w)
		if d := distance(plain, known); d < least && d <= slips(min(len(plain), len(known))) {
			best, least = w, d
		}
	}
	return best
}

// LongestWord is the maximum length in bytes of a word for which Nearest looks for similar words.
const LongestWord = 64

var plainer = strings.NewReplacer("_", "", "-", "", " ", "")

// Plain returns s in lower case, without blanks, "_" and "-".
func Plain(s string) string { return plainer.Replace(strings.ToLower(s)) }

// slips returns the maximum number of edits by which a misspelling may differ from a word of n letters.
func slips(n int) int {
	const short, middle, long = 3, 6, 12
	switch {
	case n < short:
		return 0
	case n < middle:
		return 1
	case n < long:
		return 2
	}
	return 3
}

// distance returns the number of edits that turn a into b. An edit inserts, deletes or replaces a
// letter, or swaps two neighbours.
func distance(a, b string) int {
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			differs := 1
			if a[i-1] == b[j-1] {
				differs = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+differs)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
