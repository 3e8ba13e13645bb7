package protocol

// The first tags of payloads (mpilnd B.5 rule 2). The sender of a LargePut chooses an even tag, and the sender of a
// GetOpt an odd one. So a process that receives from another one with a tag knows which of both has chosen it.
const (
	firstPut = 2
	firstGet = 3
)

// Tags allocates the tags of payloads between this process and another one. A released tag is reused as late as
// possible.
type Tags struct {
	first, count uint32
	next         uint32 // the index of the tag to try next
	used         map[uint32]struct{}
}

// PutTags returns the tags for LargePut, and GetTags those for GetOpt, if largest is the largest tag of MPI.
func PutTags(largest int) Tags { return tags(firstPut, largest) }

// GetTags is explained at PutTags.
func GetTags(largest int) Tags { return tags(firstGet, largest) }

func tags(first uint32, largest int) Tags {
	return Tags{first: first, count: (uint32(min(largest, MaxTag))-first)/2 + 1, used: make(map[uint32]struct{})}
}

// Allocate returns a tag that is not in use. It returns false if all are.
func (t *Tags) Allocate() (tag uint32, ok bool) {
	if uint32(len(t.used)) == t.count {
		return 0, false
	}
	for {
		tag = t.first + 2*t.next
		t.next = (t.next + 1) % t.count
		if _, used := t.used[tag]; !used {
			t.used[tag] = struct{}{}
			return tag, true
		}
	}
}

// Release makes a tag available again.
func (t *Tags) Release(tag uint32) { delete(t.used, tag) }

// InUse returns the number of tags in use.
func (t *Tags) InUse() int { return len(t.used) }

// tagIn reports whether a tag is one of those that begin with first.
func tagIn(tag, first uint32) bool { return tag >= first && tag <= MaxTag && tag%2 == first%2 }
