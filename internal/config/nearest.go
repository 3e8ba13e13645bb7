package config

import "strings"

// nearest is the word that somebody may have meant; empty: none is near. Case, and the
// difference between a blank, "_" and "-", count for nothing.
func nearest(word string, words []string) string {
	if len(word) > longestWord {
		return ""
	}
	best, least := "", len(word)
	plain := plainWord(word)
	for _, w := range words {
		known := plainWord(w)
		if d := distance(plain, known); d < least && d <= slips(min(len(plain), len(known))) {
			best, least = w, d
		}
	}
	return best
}

const longestWord = 64

var plainer = strings.NewReplacer("_", "", "-", "", " ", "")

func plainWord(s string) string { return plainer.Replace(strings.ToLower(s)) }

// slips is how many a word of n letters may have.
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

// distance is how many letters have to be put in, left out, replaced, or swapped with
// their neighbour, to make one word of the other.
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
