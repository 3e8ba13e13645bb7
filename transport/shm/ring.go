package shm

import "github.com/lnetd/lnetd/memory/shared"

// format is the format of a TM's ring file.
var format = shared.Format{Submission: SubmissionSize, Completion: CompletionSize}

// FileSize returns the size of a TM's ring file in bytes.
func FileSize(s shared.Sizes) int { return format.FileSize(s) }

// Host is lnetd's end of a TM's ring file.
type Host struct {
	*shared.Host
	Submissions SubmissionConsumer
	Completions CompletionProducer
}

// CreateRing creates a TM's ring file with empty rings. The caller passes the files to the client and then
// closes them. See shared.Format.Create.
func CreateRing(s shared.Sizes) (*Host, shared.Files, error) {
	h, files, err := format.Create(s)
	if err != nil {
		return nil, files, err
	}
	return &Host{h, SubmissionConsumer{SubmissionConsumer: &h.Submissions}, CompletionProducer{&h.Completions}}, files, nil
}

// Client is a client's end of a TM's ring file.
type Client struct {
	*shared.Client
	Submissions SubmissionProducer
	Completions CompletionConsumer
}

// AttachRing creates a client's end from the files that lnetd has passed to it. It takes ownership of the
// files, even if it returns an error. See shared.Format.Attach.
func AttachRing(files shared.Files) (*Client, error) {
	c, err := format.Attach(files)
	if err != nil {
		return nil, err
	}
	return &Client{c, SubmissionProducer{&c.Submissions}, CompletionConsumer{CompletionConsumer: &c.Completions}}, nil
}

// SubmissionProducer is a client's side of the submission ring.
type SubmissionProducer struct{ *shared.SubmissionProducer }

// Put adds submission s to the ring. Publish makes it visible to lnetd. Put returns false if the ring is
// full.
func (p SubmissionProducer) Put(s *Submission) (bool, error) {
	b, err := p.Slot()
	if b == nil {
		return false, err
	}
	s.Put((*[SubmissionSize]byte)(b))
	p.Advance()
	return true, nil
}

// SubmissionConsumer is lnetd's side of the submission ring.
type SubmissionConsumer struct {
	*shared.SubmissionConsumer
	entry [SubmissionSize]byte
}

// Next removes and decodes the next submission. It returns false if the ring is empty. The error is
// shared.ErrRing, or the *lnet.FieldError of an invalid entry, which has been removed.
func (c *SubmissionConsumer) Next(s *Submission) (bool, error) {
	ok, err := c.Read(c.entry[:])
	if !ok {
		return false, err
	}
	return true, s.Decode(&c.entry)
}

// CompletionProducer is lnetd's side of the completion ring.
type CompletionProducer struct{ *shared.CompletionProducer }

// Put adds completion c to the ring. Publish makes it visible to the client. Put returns false if the ring is
// full.
func (p CompletionProducer) Put(c *Completion) (bool, error) {
	b, err := p.Slot()
	if b == nil {
		return false, err
	}
	c.Put((*[CompletionSize]byte)(b))
	p.Advance()
	return true, nil
}

// CompletionConsumer is a client's side of the completion ring.
type CompletionConsumer struct {
	*shared.CompletionConsumer
	entry [CompletionSize]byte
}

// Next removes and decodes the next completion. It returns false if the ring is empty. The error is
// shared.ErrRing, or the *lnet.FieldError of an invalid entry, which has been removed.
func (c *CompletionConsumer) Next(d *Completion) (bool, error) {
	ok, err := c.Read(c.entry[:])
	if !ok {
		return false, err
	}
	return true, d.Decode(&c.entry)
}
