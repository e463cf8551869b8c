package main

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A bytesValue is a flag for an amount, such as 256Mi.
type bytesValue int64

func (b *bytesValue) String() string {
	return resource.NewQuantity(int64(*b), resource.BinarySI).String()
}

// Set reads an amount.
func (b *bytesValue) Set(text string) error {
	q, err := resource.ParseQuantity(text)
	*b = bytesValue(podspec.Value(&q))
	return err
}

// Type is the name of such a value in help.
func (b *bytesValue) Type() string { return "quantity" }
