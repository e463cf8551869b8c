// Package devices is the model devices: the weighted sum of the model linear for
// machines whose GPUs are shared, with weights for each class of items by the GPUs
// that they request. It also chooses the GPU of a machine.
package devices
