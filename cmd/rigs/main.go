// Command rigs is the server, the keeper and the command line of Rigs.
package main

func main() {}
