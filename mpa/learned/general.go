package learned

import (
	_ "embed"
	"slices"
)

//go:embed general.yaml
var general []byte

// GeneralFile returns the file of the shipped policy.
func GeneralFile() []byte { return slices.Clone(general) }

// General returns the shipped policy.
func General() *Policy {
	p, err := Parse("general.yaml", general)
	if err != nil {
		panic(err) // a test reads it
	}
	return p
}
