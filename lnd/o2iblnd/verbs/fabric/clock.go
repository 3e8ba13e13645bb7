package fabric

import (
	"container/heap"
	"time"
)

// happening is something that will happen on the fabric at a certain time, such as the arrival of a message.
type happening struct {
	at  time.Duration // time since the fabric was created
	seq uint64        // order among happenings at the same time
	do  func()
}

// agenda is a heap of happenings, the next one first.
type agenda []happening

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].seq < a[j].seq
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(happening)) }
func (a *agenda) Pop() any {
	last := len(*a) - 1
	h := (*a)[last]
	(*a)[last] = happening{}
	*a = (*a)[:last]
	return h
}

// now returns the time since the fabric was created.
func (f *Fabric) now() time.Duration { return f.net.Now() }

// after makes the fabric call do after the time d, with the lock held. If d is 0, do is called before the lock
// is released.
func (f *Fabric) after(d time.Duration, do func()) {
	if f.closed {
		return
	}
	if d <= 0 {
		f.soon = append(f.soon, do)
		return
	}
	f.seq++
	h := happening{at: f.now() + d, seq: f.seq, do: do}
	heap.Push(&f.agenda, h)
	if f.timer == nil || h.at < f.timerAt {
		f.arm()
	}
}

// arm sets the timer for the next happening.
func (f *Fabric) arm() {
	f.disarm()
	if len(f.agenda) == 0 || f.closed {
		return
	}
	f.timerAt = f.agenda[0].at
	f.ticks.Add(1)
	f.timer = time.AfterFunc(f.timerAt-f.now(), f.tick)
}

// disarm stops the timer.
func (f *Fabric) disarm() {
	if f.timer != nil && f.timer.Stop() {
		f.ticks.Done()
	}
	f.timer = nil
}

// tick is the timer's callback. It runs the happenings that are due.
func (f *Fabric) tick() {
	defer f.ticks.Done()
	f.lock()
	defer f.unlock()
	for !f.closed && len(f.agenda) > 0 && f.agenda[0].at <= f.now() {
		heap.Pop(&f.agenda).(happening).do()
		f.settle()
	}
	if f.timer != nil && f.timerAt <= f.now() { // the timer has fired; otherwise an earlier happening has set it again
		f.arm()
	}
}

func (f *Fabric) lock() { f.mu.Lock() }

func (f *Fabric) unlock() {
	f.settle()
	f.mu.Unlock()
}

// settle runs the happenings without delay, which after has collected.
func (f *Fabric) settle() {
	for k := 0; k < len(f.soon); k++ {
		f.soon[k]()
	}
	clear(f.soon)
	f.soon = f.soon[:0]
}
