// Command rigs-guest is the agent inside a rig: PID 1 of a microVM.
package main

func main() {}
