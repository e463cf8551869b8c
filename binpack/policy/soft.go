package policy

import (
	"errors"
	"fmt"

	"github.com/sigma-scheduler/sigma/binpack"
)

// Soft sets how much the apps' preferences count. It is no part of the digest.
type Soft struct {
	Mode  binpack.SoftMode `yaml:"mode,omitempty" json:"mode,omitempty"`
	Loss  float64          `yaml:"loss,omitempty" json:"loss,omitempty"`
	Price float64          `yaml:"price,omitempty" json:"price,omitempty"`
}

// Care is the extent to which preferences bind the policy.
func (s *Spec) Care() binpack.Care {
	var care binpack.Care
	if s.Soft != nil {
		care = binpack.Care{Mode: s.Soft.Mode, Loss: s.Soft.Loss, Price: s.Soft.Price}
	}
	if s.MaxShareOfApp != nil {
		care.MaxShareOfApp = *s.MaxShareOfApp
	}
	return care
}

func (s *Spec) validateCare() error {
	if s.MaxShareOfApp != nil && *s.MaxShareOfApp == 0 {
		return errors.New("spec.maxShareOfApp 0: want a number above 0, up to 1")
	}
	if err := s.Care().Validate(); err != nil {
		return fmt.Errorf("spec.%w", err)
	}
	return nil
}

// careful is a policy that states how far preferences bind it.
type careful struct {
	binpack.Policy
	care binpack.Care
}

// Care returns the policy's care, for [binpack.CareOf].
func (c careful) Care() binpack.Care { return c.care }
