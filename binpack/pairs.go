package binpack

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A Pair is the traffic that each item of an app sends to the items of another, or of its own
// app. Pairs of an app with several apps of a group are one, with the group: the largest of their
// Bits counts.
type Pair struct {
	App, Other int32
	Bits       float64 // a second, above 0
	// Paired means that an item of App talks to one of Other that no second item talks to.
	// Otherwise it talks to all that live, evenly.
	Paired bool
}

// A Sending is the traffic that each item of an app sends to the items of a group. Its text
// is GROUP=BITS, or GROUP=BITS:paired.
type Sending struct {
	Group  string
	Bits   int64 // a second, from 1 to MaxValue
	Paired bool  // as in [Pair]
}

const pairedSuffix = ":paired"

func (s Sending) String() string {
	text := fmt.Sprint(s.Group, "=", s.Bits)
	if s.Paired {
		text += pairedSuffix
	}
	return text
}

// ParseSending reads the text of a [Sending]. bits reads the number; nil = digits alone.
func ParseSending(text string, bits func(string) (int64, error)) (s Sending, err error) {
	at := strings.LastIndexByte(text, '=')
	if at < 1 {
		return s, fmt.Errorf("%q: want GROUP=BITS", text)
	}
	if bits == nil {
		bits = func(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }
	}
	amount, paired := strings.CutSuffix(text[at+1:], pairedSuffix)
	s = Sending{Group: text[:at], Paired: paired}
	if s.Bits, err = bits(amount); err == nil && (s.Bits < 1 || s.Bits > MaxValue) {
		err = errors.New("want 1 to 2^50 bits a second")
	}
	if err != nil {
		return s, fmt.Errorf("%q: %w", text, err)
	}
	return s, nil
}
