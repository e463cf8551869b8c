package v1

import (
	"math"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/conversion"
)

// Convert_Pointer_resource_Quantity_To_int64 rounds up and keeps within the range of the number. conversion-gen finds it by its
// name.
//
//nolint:revive // var-naming: the generator wants the underscores
func Convert_Pointer_resource_Quantity_To_int64(in **resource.Quantity, out *int64, _ conversion.Scope) error {
	*out = 0
	if *in != nil {
		switch q := *in; { // beyond 64 bits the value is a remainder or 0
		case q.AsApproximateFloat64() > 1<<62:
			*out = math.MaxInt64
		case q.AsApproximateFloat64() < -(1 << 62):
			*out = -math.MaxInt64
		default:
			*out = q.Value()
		}
	}
	return nil
}

// Convert_int64_To_Pointer_resource_Quantity is exact. conversion-gen finds it by its
// name.
//
//nolint:revive // var-naming: the generator wants the underscores
func Convert_int64_To_Pointer_resource_Quantity(in *int64, out **resource.Quantity, _ conversion.Scope) error {
	*out = resource.NewQuantity(*in, resource.BinarySI)
	return nil
}
