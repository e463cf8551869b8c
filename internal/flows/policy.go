package flows

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/sim"
	"github.com/sigma-scheduler/sigma/flow/tune"
)

// Kinds of policies, by the word before the colon.
const (
	fair   = "fair"
	fifo   = "fifo"
	bands  = "bands"
	tuned  = "tuned"
	hinted = "hinted"
	las    = "las"
	srpt   = "srpt"
)

// Kinds lists them.
func Kinds() []string { return []string{fair, fifo, bands, tuned, hinted, las, srpt} }

// Names are policies that a shell offers.
func Names() []string {
	return []string{fair, fifo, bands + ":100k/1.8M/9.9M", tuned, tuned + ":8", hinted, hinted + ":.5", hinted + ":1/.1", las, srpt}
}

// DefaultPolicies are compared if no policies are given.
func DefaultPolicies() []string { return []string{fair, tuned, hinted, las, srpt} }

// A Policy is a policy named on the command line.
type Policy struct {
	Name, Kind string
	Thresholds flow.Thresholds // of bands
	Bands      int             // of tuned and hinted
	Hints      sim.Hints       // of hinted
	Buffer     float64         // bytes, of fifo
}

// ParsePolicies reads names. An error names the policy.
func ParsePolicies(names []string) ([]Policy, error) {
	if len(names) == 0 {
		return nil, errors.New("no policy")
	}
	var list []Policy
	for _, name := range names {
		p, err := parse(name)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", name, err)
		}
		if slices.ContainsFunc(list, func(o Policy) bool { return o.Name == name }) {
			return nil, fmt.Errorf("%q: twice", name)
		}
		list = append(list, p)
	}
	return list, nil
}

func parse(name string) (Policy, error) {
	kind, value, given := strings.Cut(name, ":")
	p := Policy{Name: name, Kind: kind, Bands: tune.DefaultBands, Buffer: sim.DefaultBuffer, Hints: sim.Hints{Error: 1}}
	var err error
	switch kind {
	case fair, las, srpt:
		if given {
			return p, fmt.Errorf("%s takes no value", kind)
		}
	case bands:
		p.Thresholds, err = flow.ParseThresholds(value)
	case tuned:
		if given {
			if p.Bands, err = strconv.Atoi(value); err != nil || p.Bands < 2 || p.Bands > flow.MostBands {
				return p, fmt.Errorf("%q: want a number of bands from 2 to %d", value, flow.MostBands)
			}
		}
	case fifo:
		if given {
			packets, err := strconv.Atoi(value)
			if err != nil || packets < 1 || packets > 1e9 {
				return p, fmt.Errorf("%q: want a buffer of 1 to 1e9 packets", value)
			}
			p.Buffer = float64(packets) * packet
		}
	case hinted:
		if !given {
			break
		}
		deviation, wrong, also := strings.Cut(value, "/")
		if p.Hints.Error, err = strconv.ParseFloat(deviation, 64); err != nil {
			return p, fmt.Errorf("%q: want the deviation of the log of the size, such as .5", deviation)
		}
		if also {
			if p.Hints.Wrong, err = strconv.ParseFloat(wrong, 64); err != nil {
				return p, fmt.Errorf("%q: want the share of wrong hints, such as .1", wrong)
			}
		}
		err = p.Hints.Validate()
	default:
		return p, fmt.Errorf("unknown policy; there are %s", strings.Join(Kinds(), ", "))
	}
	return p, err
}

// packet is a full packet with its Ethernet header, in bytes.
const packet = 1514
