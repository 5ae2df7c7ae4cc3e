/* A library with one unused function. */
int nothing(void)
{
	return 0;
}
